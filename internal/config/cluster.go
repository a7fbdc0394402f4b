package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cluster is the configuration of a node of a replicated cluster.
type Cluster struct {
	Node     string // empty: there is no cluster
	Addr     string
	Peers    []Peer
	TLS      TLS
	Insecure bool
	LogKeep  uint64
	// CatchUpRate is in bytes per second.
	CatchUpRate uint64
	Election    time.Duration
}

// Peer is a node of a cluster.
type Peer struct{ Name, Addr string }

// Enabled reports whether this server is a node of a cluster.
func (c *Cluster) Enabled() bool { return c.Node != "" }

func clusterKeys() []Key {
	at := func(c *Config) *Cluster { return &c.Cluster }
	return []Key{
		nodeKey("cluster.node",
			"Name of this node in a cluster of several. Without it the server is one of its own.",
			func(c *Config) *string { return &at(c).Node }),
		stringKey("cluster.addr", "",
			"Address to listen at for other nodes: HOST:PORT. Empty: the one that cluster.peers has for this node.",
			func(c *Config) *string { return &at(c).Addr }),
		peersKey("cluster.peers",
			"Nodes with the addresses at which they reach each other, this one included: "+
				"a=HOST:PORT,b=HOST:PORT,c=HOST:PORT. These make a new cluster, or are where this node looks for the "+
				"one that it joins. From then on the cluster itself knows its nodes.",
			func(c *Config) *[]Peer { return &at(c).Peers }),
		boolKey("cluster.insecure",
			"Let nodes on different machines talk to each other without certificates. Whoever reaches the address "+
				"can read and change everything.",
			func(c *Config) *bool { return &at(c).Insecure }),
		sizeKey("cluster.log_keep", "256MiB", limits[uint64]{1 << 20, 1 << 40},
			"How much of the log is kept for nodes that are behind. One that is further behind is sent all data.",
			func(c *Config) *uint64 { return &at(c).LogKeep }),
		sizeKey("cluster.catchup_rate", "64MiB", limits[uint64]{1 << 10, 1 << 40},
			"How much per second a node sends of all its data to one that is new or too far behind, so that clients "+
				"are served meanwhile.",
			func(c *Config) *uint64 { return &at(c).CatchUpRate }),
		durationKey("cluster.election", "500ms", limits[time.Duration]{50 * time.Millisecond, time.Minute},
			"How long a leader may be silent before the others choose another one. The same on every node.",
			func(c *Config) *time.Duration { return &at(c).Election }),
		pathKey("cluster.tls.cert", "",
			"PEM file with the certificate chain of this node, for connections between nodes.",
			func(c *Config) *string { return &at(c).TLS.Cert }),
		pathKey("cluster.tls.key", "",
			"PEM file with the certificate's private key.",
			func(c *Config) *string { return &at(c).TLS.Key }),
		pathKey("cluster.tls.ca", "",
			"PEM file with the certificate authorities that sign the certificates of nodes. Whoever has such a "+
				"certificate can read and change everything.",
			func(c *Config) *string { return &at(c).TLS.ClientCA }),
	}
}

func nodeKey(name, doc string, at func(*Config) *string) Key {
	return Key{Name: name, Doc: doc, Kind: KindString, value: valueAt(at), set: func(c *Config, text string) error {
		if text != "" {
			if err := checkNode(text); err != nil {
				return err
			}
		}
		*at(c) = text
		return nil
	}}
}

func checkNode(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > 63 || strings.Trim(name, allowed) != "" {
		return fmt.Errorf("%q is not the name of a node: use up to 63 of letters, digits, ., - and _", name)
	}
	return nil
}

// ParsePeer reads a node in the form NAME=HOST:PORT.
func ParsePeer(text string) (Peer, error) {
	node, addr, ok := strings.Cut(text, "=")
	if !ok {
		return Peer{}, fmt.Errorf("%q has no address: write NAME=HOST:PORT", text)
	}
	if err := checkNode(node); err != nil {
		return Peer{}, err
	}
	return Peer{node, addr}, checkHostPort(addr)
}

func peersKey(name, doc string, at func(*Config) *[]Peer) Key {
	return Key{Name: name, Doc: doc, Kind: KindString, value: valueAt(at), set: func(c *Config, text string) error {
		*at(c) = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			peer, err := ParsePeer(item)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(*at(c), func(p Peer) bool { return p.Name == peer.Name || p.Addr == peer.Addr }) {
				return fmt.Errorf("%s is there twice", item)
			}
			*at(c) = append(*at(c), peer)
		}
		return nil
	}}
}

// checkCluster looks at the keys of the cluster together.
func (l *loader) checkCluster() {
	c := &l.config.Cluster
	if !c.Enabled() {
		if len(c.Peers) > 0 {
			l.problem("cluster.peers is set but cluster.node is not: name the node that this server is")
		}
		return
	}
	self := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == c.Node })
	switch {
	case self < 0:
		l.problem("cluster.peers does not name %s, which is cluster.node: list all nodes, this one included", c.Node)
	case c.Addr == "":
		c.Addr = c.Peers[self].Addr
	}
	if c.Addr != "" {
		if err := checkHostPort(c.Addr); err != nil {
			l.problem("cluster.addr: %s", err)
		}
	}
	if l.config.Store.Durability != "fsync" {
		l.problem("store.durability is %s, but a cluster promises that what is acknowledged is on several disks: use "+
			"fsync", l.config.Store.Durability)
	}
	switch t := c.TLS; {
	case (t.Cert == "") != (t.Key == "") || (t.Cert == "") != (t.ClientCA == ""):
		l.problem("cluster.tls.cert, cluster.tls.key and cluster.tls.ca belong together: set all of them, or none")
	case t.Cert == "" && !c.Insecure && (!isLoopback(c.Addr) ||
		slices.ContainsFunc(c.Peers, func(p Peer) bool { return !isLoopback(p.Addr) })):
		l.problem("the nodes of the cluster are on different machines: set cluster.tls.cert, cluster.tls.key and " +
			"cluster.tls.ca, or, in a network where nobody else is, cluster.insecure")
	}
}
