package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// FileVariable is the environment variable that names the configuration file.
const FileVariable = envPrefix + "CONFIG"

// PackagedFile is where the packages put the configuration of the server.
const PackagedFile = "/etc/millrace/millrace.toml"

// Input is where the values come from.
type Input struct {
	// File is the path of the TOML file; empty means the one that FileVariable
	// names, if any.
	File string
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Flags are the flags that were given, by key name.
	Flags map[string]string
}

// Error lists everything that is wrong with a configuration.
type Error struct {
	Problems []string
}

// Error returns the problems, one per line if there are several.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0]
	}
	return fmt.Sprintf("%d problems in the configuration:\n  %s", len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// Load reads the configuration from the file, the environment and the flags. Its
// error is always an *Error.
func Load(in Input) (*Config, error) { return standard().load(in) }

func (t table) load(in Input) (*Config, error) {
	l := loader{table: t, config: new(Config), settings: make(map[string]Setting, len(t.keys))}
	for _, k := range t.keys {
		l.apply(k, k.Default, Source{Layer: LayerDefault})
	}
	env := parseEnviron(in.Environ)
	path := in.File
	if path == "" {
		path = env[FileVariable]
	}
	if path != "" {
		l.file(path)
	}
	for _, b := range t.blocks {
		if b.original != nil {
			b.original(&l, env, in.Flags)
		}
	}
	l.originals(env, in.Flags)
	l.environ(env)
	for _, name := range sortedKeys(in.Flags) {
		k, ok := t.byName(name)
		if !ok {
			l.problem("unknown flag %s%s", name, didYouMean(name, t.names()))
			continue
		}
		l.apply(k, in.Flags[name], Source{Layer: LayerFlag, Name: "--" + k.Flag()})
	}
	l.secrets()
	if len(l.problems) == 0 {
		l.check()
	}
	if len(l.problems) > 0 {
		return nil, &Error{Problems: l.problems}
	}
	for _, k := range t.keys {
		l.config.settings = append(l.config.settings, l.settings[k.Name])
	}
	return l.config, nil
}

// loader is a configuration in the making.
type loader struct {
	table    table
	config   *Config
	settings map[string]Setting // by key name
	problems []string
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// apply gives a key a value. The layers are applied lowest first, so the last wins.
func (l *loader) apply(k Key, text string, from Source) {
	if err := k.set(l.config, text); err != nil {
		l.problem("%s: %s: %s", from, k.Name, err)
		return
	}
	l.settings[k.Name] = Setting{Key: k, Source: from, text: text}
}

// environ applies the MILLRACE_ variables. An empty one counts as not set,
// because many tools cannot leave a variable out.
func (l *loader) environ(env map[string]string) {
	known := map[string]bool{FileVariable: true}
	for _, k := range l.table.keys {
		known[k.Env()] = true
		if text := env[k.Env()]; text != "" {
			l.apply(k, text, Source{Layer: LayerEnv, Name: k.Env()})
		}
	}
	for _, name := range sortedKeys(env) {
		if !strings.HasPrefix(name, envPrefix) || known[name] || isServiceLink(name, env[name]) || isClientVariable(name) {
			continue
		}
		l.problem("unknown environment variable %s%s", name, l.advice(name, l.table.variables()))
	}
}

// originals applies the variables of the servers that the protocols come from,
// unless the same key is set in our own way.
func (l *loader) originals(env, flags map[string]string) {
	for _, b := range l.table.blocks {
		for _, o := range b.originals {
			text := env[o.variable]
			if text == "" {
				continue
			}
			notice := Notice{Variable: o.variable, Key: o.key, Advice: o.advice}
			if o.key == "" {
				if err := o.check(text); err != nil {
					l.problem("%s: %s", o.variable, err)
				}
				l.config.notices = append(l.config.notices, notice)
				continue
			}
			k, ok := l.table.byName(o.key)
			if !ok {
				panic("config: variable " + o.variable + " stands for the unknown key " + o.key)
			}
			_, flagged := flags[k.Name]
			notice.Used = env[k.Env()] == "" && !flagged
			if notice.Used {
				l.apply(k, text, Source{Layer: LayerOriginal, Name: o.variable})
			}
			if notice.Advice == "" {
				notice.Advice = "set " + k.Env() + " instead"
			}
			l.config.notices = append(l.config.notices, notice)
		}
	}
}

// secrets settles which of a secret and its file counts: the one from the higher
// layer. In one layer they must not both be given, because it could not be told
// which is meant.
func (l *loader) secrets() {
	for _, k := range l.table.keys {
		file := l.settings[k.Name+secretSuffix]
		if !k.Secret || file.text == "" {
			continue
		}
		secret := l.settings[k.Name]
		switch {
		case secret.text == "" || secret.Source.Layer < file.Source.Layer:
			secret.text, secret.Source = secretMask, file.Source
			l.settings[k.Name] = secret
		case secret.Source.Layer == file.Source.Layer:
			l.problem("%s (from %s) and %s (from %s) are both set: remove one",
				k.Name, secret.Source, file.Key.Name, file.Source)
		}
	}
}

// check looks at what concerns several keys together.
func (l *loader) check() {
	checked := make(map[string]bool) // protocols whose TLS keys have been looked at
	for _, b := range l.table.blocks {
		if b.check != nil {
			b.check(l)
		}
		for _, at := range b.listeners(l.config) {
			setting := l.settings[at.Key.Name]
			at.Key = setting.Key
			l.config.listeners = append(l.config.listeners, at)
			l.checkReach(at, setting.Source)
			if at.Role == "" && !checked[at.Protocol] {
				checked[at.Protocol] = true
				l.checkTLS(at.Protocol, at.TLS)
			}
		}
	}
	l.checkClash()
	l.checkCluster()
}

// advice ends a message about an unknown name with what to do.
func (l *loader) advice(name string, candidates []string) string {
	if s := didYouMean(name, candidates); s != "" {
		return s
	}
	return `: "millrace config example" lists all keys`
}

func parseEnviron(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

func sortedKeys(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// or returns the first of two texts that is not empty.
func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func portOf(hostPort string) string {
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return ""
	}
	return port
}
