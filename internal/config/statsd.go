package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Statsd says where gauges are reported to, and in which form.
type Statsd struct {
	To        Endpoint
	Namespace string
	Tags      []string
	// Latency are the queues whose latency is reported, besides their size.
	Latency []string
}

// Endpoint is what datagrams are sent to, as for net.Dial; without an address nothing is sent.
type Endpoint struct{ Network, Addr string }

// Enabled reports whether anything is reported.
func (s *Statsd) Enabled() bool { return s.To.Addr != "" }

// AllQueues stands for all queues in the list of those whose latency is reported.
const AllQueues = "*"

// ReportsLatency reports whether the latency of a queue is reported.
func (s *Statsd) ReportsLatency(queue string) bool {
	return slices.Contains(s.Latency, queue) || slices.Contains(s.Latency, AllQueues)
}

// Bounds of what every line begins and ends with, so that a line fits into a packet.
const (
	statsdNamespaceMax = 100
	statsdTagsMax      = 600
)

func statsdKeys() []Key {
	at := func(c *Config) *Statsd { return &c.Statsd }
	tags := NamesKey("statsd.tags",
		`Tags of every gauge, separated by commas: "env:production, region:eu". `+
			"Only collectors of DogStatsD's kind understand tags.",
		checkTag, func(c *Config) *[]string { return &at(c).Tags })
	return []Key{
		{
			Name: "statsd.addr", Default: AddressOff, Kind: KindString,
			Doc: "Where gauges are sent every 30 seconds, in the form of statsd: " +
				`host:port for UDP, or "unix:///path" for a datagram socket; "off" sends none.`,
			set: func(c *Config, text string) (err error) {
				at(c).To, err = parseEndpoint(text)
				return err
			},
			value: func(c *Config) any { return at(c).To },
		},
		Parsed(stringKey("statsd.namespace", "faktory.",
			"What the name of every gauge begins with. A dot is added if it has none at its end.",
			func(c *Config) *string { return &at(c).Namespace }), parseStatsdNamespace),
		Parsed(tags, func(text string) (string, error) {
			if len(text) > statsdTagsMax {
				return "", fmt.Errorf("every gauge has all tags, and these are longer than %d characters: use fewer",
					statsdTagsMax)
			}
			return text, nil
		}),
		NamesKey("statsd.latency_queues",
			`Queues whose latency is sent besides their size, separated by commas: "critical, default". `+
				`"*" is all that have metrics of their own.`,
			func(string) error { return nil }, func(c *Config) *[]string { return &at(c).Latency }),
	}
}

// parseEndpoint reads host:port, also with "udp://" before it, the path of a socket after "unix://", or "off".
func parseEndpoint(text string) (Endpoint, error) {
	if text == AddressOff {
		return Endpoint{}, nil
	}
	if path, ok := strings.CutPrefix(text, "unix://"); ok && path != "" {
		return Endpoint{"unixgram", path}, nil
	}
	addr := strings.TrimPrefix(text, "udp://")
	host, port, err := net.SplitHostPort(addr)
	n, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil || n == 0 || strings.ContainsAny(host, " \t\r\n/") {
		return Endpoint{}, fmt.Errorf(
			`%q is not a place to send to: write host:port, for example "127.0.0.1:8125", or "unix:///path", or "off"`,
			text)
	}
	return Endpoint{"udp", addr}, nil
}

var (
	statsdName = regexp.MustCompile(`^[a-zA-Z0-9_.-]*$`)
	statsdTag  = regexp.MustCompile(`^[a-zA-Z][\w:./-]*$`)
)

func parseStatsdNamespace(text string) (string, error) {
	if len(text) > statsdNamespaceMax || !statsdName.MatchString(text) {
		return "", fmt.Errorf("%q cannot begin a name: use up to %d letters, digits, '-', '_' and '.'",
			text, statsdNamespaceMax)
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text, nil
}

func checkTag(tag string) error {
	if !statsdTag.MatchString(tag) {
		return fmt.Errorf("%q is not a tag: write for example env:production, "+
			"with a letter first and then letters, digits, '_', '-', ':', '.' and '/'", tag)
	}
	return nil
}
