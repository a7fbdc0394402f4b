package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// lmstfyFile is a configuration file of the original LMSTFY server. Keys that are not
// there stay nil, so that our own defaults hold.
type lmstfyFile struct {
	Host, AdminHost *string
	Port, AdminPort *int

	LogLevel, LogFormat, LogDir *string
	EnableAccessLog             *bool
	Accounts                    map[string]string

	TTLSecond, DelaySecond, TriesNum, TTRSecond, TimeoutSecond *int

	AdminRedis map[string]any
	Pool       map[string]map[string]any
}

// lmstfyLevels are our names of the original's levels.
var lmstfyLevels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info", "debug": "debug", "trace": "debug",
}

// lmstfyOriginal applies the original's file, if one is named.
func lmstfyOriginal(l *loader, env, flags map[string]string) {
	const key = "lmstfy.config"
	k, ok := l.table.byName(key)
	if !ok {
		return
	}
	path := l.settings[key].text
	if text := env[k.Env()]; text != "" {
		path = text
	}
	if text, ok := flags[key]; ok {
		path = text
	}
	if path == "" {
		return
	}
	data, err := readBounded(path, fileSizeMax)
	if err != nil {
		l.problem("%s: %s", key, err)
		return
	}
	var f lmstfyFile
	meta, err := toml.Decode(string(data), &f)
	if err != nil {
		l.problem("%s: %s: %s", key, path, err)
		return
	}
	o := lmstfyReader{loader: l, path: path}
	o.read(&f)
	o.ignore(&f, &meta)
}

// lmstfyReader applies the values of an original file.
type lmstfyReader struct {
	*loader
	path string
}

// set gives a key a value that stood under another name, unless our own file has set it.
func (o *lmstfyReader) set(key, text, original string) {
	if o.settings[key].Source.Layer != LayerDefault {
		return
	}
	if k, ok := o.table.byName(key); ok {
		o.apply(k, text, o.from(original))
	}
}

func (o *lmstfyReader) from(original string) Source {
	return Source{Layer: LayerOriginal, Name: o.path + ", " + original}
}

func (o *lmstfyReader) read(f *lmstfyFile) {
	o.set("lmstfy.auth", authToken, "as the original does")
	o.address("lmstfy.addr", "7777", f.Host, f.Port, "Host, Port")
	o.address("lmstfy.admin_addr", "7778", f.AdminHost, f.AdminPort, "AdminHost, AdminPort")
	if f.LogLevel != nil {
		o.set("log.level", or(lmstfyLevels[strings.ToLower(*f.LogLevel)], *f.LogLevel), "LogLevel")
	}
	if f.LogFormat != nil {
		o.set("log.format", strings.ToLower(*f.LogFormat), "LogFormat")
	}
	if f.EnableAccessLog != nil {
		o.set("lmstfy.access_log", strconv.FormatBool(*f.EnableAccessLog), "EnableAccessLog")
	}
	for _, n := range []struct {
		key, original, unit string
		value               *int
	}{
		{"lmstfy.default_ttl", "TTLSecond", "s", f.TTLSecond},
		{"lmstfy.default_delay", "DelaySecond", "s", f.DelaySecond},
		{"lmstfy.default_tries", "TriesNum", "", f.TriesNum},
		{"lmstfy.default_ttr", "TTRSecond", "s", f.TTRSecond},
		{"lmstfy.default_timeout", "TimeoutSecond", "s", f.TimeoutSecond},
	} {
		if n.value != nil {
			o.set(n.key, strconv.Itoa(*n.value)+n.unit, n.original)
		}
	}
	o.pools(f)
	o.accounts(f)
}

// address puts host and port together, one of which may be left out.
func (o *lmstfyReader) address(key, port string, host *string, number *int, original string) {
	if host == nil && number == nil {
		return
	}
	at := "127.0.0.1"
	if host != nil {
		at = *host
	}
	if number != nil {
		port = strconv.Itoa(*number)
	}
	o.set(key, net.JoinHostPort(at, port), original)
}

func (o *lmstfyReader) pools(f *lmstfyFile) {
	var names []string
	for name := range f.Pool {
		if name != "default" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		o.set("lmstfy.pools", strings.Join(names, ", "), "Pool")
	}
}

// accounts takes the accounts over as they are: a password may hold what our own form of
// them cannot.
func (o *lmstfyReader) accounts(f *lmstfyFile) {
	const key = "lmstfy.admin_accounts"
	set := o.settings[key].Source.Layer != LayerDefault || o.settings[key+secretSuffix].Source.Layer != LayerDefault
	if len(f.Accounts) == 0 || set {
		return
	}
	k, _ := o.table.byName(key)
	o.config.Lmstfy.Accounts = f.Accounts
	o.settings[key] = Setting{Key: k, Source: o.from("Accounts"), text: secretMask}
}

// ignore notes what has no meaning here.
func (o *lmstfyReader) ignore(f *lmstfyFile, meta *toml.MetaData) {
	var names []string
	if f.LogDir != nil {
		names = append(names, "LogDir")
	}
	if f.AdminRedis != nil {
		names = append(names, "AdminRedis")
	}
	for name := range f.Pool {
		if len(f.Pool[name]) > 0 {
			names = append(names, fmt.Sprintf("Pool.%s.*", name))
		}
	}
	for _, k := range meta.Undecoded() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	o.config.Lmstfy.Ignored = names[:min(len(names), unknownMax)]
}
