package lmstfy

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"millrace/internal/config"
)

// originalFile is a configuration file of the original LMSTFY server. Keys that are not
// there stay nil, so that our own defaults hold.
type originalFile struct {
	Host, AdminHost *string
	Port, AdminPort *int

	LogLevel, LogFormat, LogDir *string
	EnableAccessLog             *bool
	Accounts                    map[string]string

	TTLSecond, DelaySecond, TriesNum, TTRSecond, TimeoutSecond *int

	AdminRedis map[string]any
	Pool       map[string]map[string]any
}

// originalLevels are our names of the original's levels.
var originalLevels = map[string]string{
	"panic": "error", "fatal": "error", "error": "error", "warn": "warn", "warning": "warn", "info": "info",
	"debug": "debug", "trace": "debug",
}

// original applies the original's file, if one is named.
func original(l *config.Loader, env, flags map[string]string) {
	const key = "lmstfy.config"
	path := l.Final(key, env, flags)
	if path == "" {
		return
	}
	data, err := config.ReadFile(path)
	if err != nil {
		l.Problem("%s: %s", key, err)
		return
	}
	var f originalFile
	meta, err := toml.Decode(string(data), &f)
	if err != nil {
		l.Problem("%s: %s: %s", key, path, err)
		return
	}
	o := originalReader{Loader: l, path: path}
	o.read(&f)
	o.ignore(&f, &meta)
}

// originalReader applies the values of an original file.
type originalReader struct {
	*config.Loader
	path string
}

// set gives a key a value that stood under another name, unless our own file has set it.
func (o *originalReader) set(key, text, original string) {
	if o.Layer(key) == config.LayerDefault {
		o.Set(key, text, o.from(original))
	}
}

func (o *originalReader) from(original string) config.Source {
	return config.Source{Layer: config.LayerOriginal, Name: o.path + ", " + original}
}

func (o *originalReader) read(f *originalFile) {
	o.set("lmstfy.auth", authToken, "as the original does")
	o.address("lmstfy.addr", "7777", f.Host, f.Port, "Host, Port")
	o.address("lmstfy.admin_addr", "7778", f.AdminHost, f.AdminPort, "AdminHost, AdminPort")
	if f.LogLevel != nil {
		o.set("log.level", cmp.Or(originalLevels[strings.ToLower(*f.LogLevel)], *f.LogLevel), "LogLevel")
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
func (o *originalReader) address(key, port string, host *string, number *int, original string) {
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

func (o *originalReader) pools(f *originalFile) {
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
func (o *originalReader) accounts(f *originalFile) {
	const key = "lmstfy.admin_accounts"
	if len(f.Accounts) > 0 && o.Layer(key) == config.LayerDefault &&
		o.Layer(key+config.SecretSuffix) == config.LayerDefault {
		settings(o.Config()).Accounts = f.Accounts
		o.SetSecret(key, o.from("Accounts"))
	}
}

// ignoredMax bounds how many unknown keys are told.
const ignoredMax = 20

// ignore notes what has no meaning here.
func (o *originalReader) ignore(f *originalFile, meta *toml.MetaData) {
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
	settings(o.Config()).Ignored = names[:min(len(names), ignoredMax)]
}
