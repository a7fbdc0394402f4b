package hook

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://example.org/dead?a=b": true, "http://10.0.0.1:8080": true, "https://[::1]/": true,
		"": false, "example.org": false, "ftp://example.org/": false, "https:///x": false,
		"https://user:secret@example.org/": false,
		"https://example.org/a b":          false, "https://example.org/" + strings.Repeat("a", 2000): false,
	} {
		if err := CheckURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Only addresses of the internet are called, and those that are allowed by name.
func TestAddresses(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("127.0.0.1/32"),
		netip.MustParsePrefix("fd00::/64"),
	}
	for address, ok := range map[string]bool{
		"93.184.216.34:443": true, "8.8.8.8:80": true, "[2606:2800:220:1::1]:443": true, "[::ffff:8.8.8.8]:80": true,
		"10.1.2.3:80": true, "127.0.0.1:80": true, "[fd00::1]:80": true, "[::ffff:10.1.2.3]:80": true,
		"127.0.0.2:80": false, "[::1]:80": false, "0.0.0.0:80": false, "[::]:80": false, "0.1.2.3:80": false,
		"10.2.0.1:80": false, "172.16.0.1:80": false, "192.168.1.1:80": false, "[fd01::1]:80": false,
		"[fc00::1]:80":       false,
		"169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "100.64.0.1:80": false, "192.0.0.8:80": false,
		"198.18.0.1:80": false,
		"224.0.0.1:80":  false, "[ff02::1]:80": false, "255.255.255.255:80": false, "240.0.0.1:80": false,
		"192.0.2.1:80":          false,
		"[::ffff:127.0.0.2]:80": false, "[::ffff:169.254.169.254]:80": false, "[64:ff9b::7f00:1]:80": false,
		"[2002:7f00:1::]:80":   false,
		"[2001:0:7f00:1::]:80": false, "[2001:db8::1]:80": false, "[fec0::1]:80": false,
		"[::127.0.0.1]:80": false, "name:80": false,
	} {
		if err := checkAddress(address, allow); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The example is of the Standard Webhooks specification.
func TestSign(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	secret := []byte("0\x97\xd3\x2a\xdd\xba\xd4\x5f\xe7\x05\x22\x6b\xa5\x51\xa1\xf8\xf0\x5a\xc1\x80\x6c\xe2\x97\x9a")
	sign(h, [][]byte{secret, secret[1:]}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	if got := h.Get("Webhook-Id") + " " + h.Get("Webhook-Timestamp"); got != "msg_p5jXN8AQM9LWM0D4loKWxJek 1614265330" {
		t.Errorf("id and time are %q", got)
	}
	first, second, both := strings.Cut(h.Get("Webhook-Signature"), " ")
	if !both || !strings.HasPrefix(first, "v1,") || !strings.HasPrefix(second, "v1,") || first == second {
		t.Errorf("signatures are %q", h.Get("Webhook-Signature"))
	}
	if !verify(secret, h, []byte(`{"test": 2432232314}`)) || verify(secret, h, []byte(`{"test": 2432232315}`)) {
		t.Error("the signature is not that of the text")
	}
}
