package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sign adds the headers of the Standard Webhooks specification: an id that is the same for every try, the time, and a
// signature by each secret, so that secrets can be replaced one after the other.
func sign(h http.Header, secrets [][]byte, id string, now time.Time, body []byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
