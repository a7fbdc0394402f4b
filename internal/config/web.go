package config

// Web is the configuration of the operator's side: web UI, operator API, metrics and health.
type Web struct {
	Addr          Addresses
	Password      string
	ReadPassword  string
	Token         string
	ReadToken     string
	MetricsQueues int
	MetricsTypes  int
	TLS           TLS
}

// ProtocolWeb is what stands for a protocol in the listeners of the operator's side.
const ProtocolWeb = "web"

const webPassword = "web.password"

func webSpec() Spec {
	keys := []Key{
		WithoutNamespace(addressesKey("web.addr", "127.0.0.1:7420",
			`Address of the web UI, the operator API, metrics and health; "off" disables it, port 0 picks a free one. Several are separated by commas.`,
			func(c *Config) *Addresses { return &c.Web.Addr })),
	}
	keys = append(keys, liveSecret(secretKeys(webPassword,
		"Password of operators, for HTTP basic authentication with any user name. Without it, without a token and "+
			"without faktory.password everybody may do everything, "+
			"which is allowed on loopback only.",
		func(c *Config) *string { return &c.Web.Password }))...)
	keys = append(keys, liveSecret(secretKeys("web.read_password",
		"Password of those who may look at everything and change nothing.",
		func(c *Config) *string { return &c.Web.ReadPassword }))...)
	keys = append(keys, liveSecret(secretKeys("web.token",
		"Bearer token of programs that may do what operators may.",
		func(c *Config) *string { return &c.Web.Token }))...)
	keys = append(keys, liveSecret(secretKeys("web.read_token",
		"Bearer token of programs that may only look, such as Prometheus.",
		func(c *Config) *string { return &c.Web.ReadToken }))...)
	keys = append(keys, intKey("web.metrics_queues", 500, limits[int]{1, 100000},
		"Queues that have metrics of their own, those made first; all others are counted together.",
		func(c *Config) *int { return &c.Web.MetricsQueues }))
	keys = append(keys, intKey("web.metrics_types", 200, limits[int]{0, 10000},
		"Types of jobs whose waiting and running times have metrics of their own, those fetched first; all others "+
			"are counted together. 0 tells no types apart.",
		func(c *Config) *int { return &c.Web.MetricsTypes }))
	keys = append(keys, tlsKeys(ProtocolWeb, func(c *Config) *TLS { return &c.Web.TLS })...)
	return Spec{
		Name: ProtocolWeb, Keys: keys, Listeners: webListeners, Check: checkWeb,
		Alike: []string{
			webPassword, "web.read_password", "web.token", "web.read_token", "web.metrics_queues",
			"web.metrics_types",
		},
	}
}

// Protected reports whether the operator's side asks for a password or token.
func (w *Web) Protected() bool {
	return w.Password != "" || w.ReadPassword != "" || w.Token != "" || w.ReadToken != ""
}

func webListeners(c *Config) []Listener {
	w := &c.Web
	l := Listener{
		Protocol: ProtocolWeb, Key: Key{Name: "web.addr"}, TLS: w.TLS,
		Authenticated: w.TLS.ClientCA != "" || w.Protected(),
		Remedy:        "set a password with " + webPassword,
	}
	return l.At(w.Addr, "")
}

// checkWeb takes the password of clients for that of operators if there is no other, as the original of such a protocol
// does.
func checkWeb(l *loader) {
	w := &l.config.Web
	for _, s := range l.table.specs {
		clients, ok := l.table.byName(s.Password)
		if !ok || w.Protected() {
			continue
		}
		if password, ok := clients.value(l.config).(string); ok && password != "" {
			w.Password = password
			k, _ := l.table.byName(webPassword)
			l.settings[webPassword] = Setting{Key: k, Source: l.settings[s.Password].Source, text: secretMask}
		}
	}
}
