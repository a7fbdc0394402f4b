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
func (t Table) Load(in Input) (*Config, error) {
	l := t.loader()
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
	for _, s := range t.specs {
		if s.Original != nil {
			s.Original(l, env, in.Flags)
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

// Loader is a configuration in the making.
type Loader = loader

type loader struct {
	table    Table
	config   *Config
	settings map[string]Setting // by key name
	problems []string
}

// loader returns a configuration that is all defaults as soon as its keys are applied.
func (t Table) loader() *loader {
	c := &Config{table: t, protocols: make(map[string]any)}
	for _, s := range t.specs {
		if s.Settings != nil {
			c.protocols[s.Name] = s.Settings()
		}
	}
	return &loader{table: t, config: c, settings: make(map[string]Setting, len(t.keys))}
}

func (l *loader) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// Problem notes what is wrong.
func (l *loader) Problem(format string, args ...any) { l.problem(format, args...) }

// Config returns what has been set so far.
func (l *loader) Config() *Config { return l.config }

// Layer returns where the value of a key has come from so far.
func (l *loader) Layer(key string) Layer { return l.settings[key].Source.Layer }

// Set gives a key a value.
func (l *loader) Set(key, text string, from Source) {
	if k, ok := l.table.byName(key); ok {
		l.apply(k, text, from)
	}
}

// SetSecret notes where a secret has come from that was set without its key.
func (l *loader) SetSecret(key string, from Source) {
	if k, ok := l.table.byName(key); ok {
		l.settings[key] = Setting{Key: k, Source: from, text: secretMask}
	}
}

// Final returns the text that a key will have, whose layers have not all been applied yet.
func (l *loader) Final(key string, env, flags map[string]string) string {
	text := l.settings[key].text
	if k, ok := l.table.byName(key); ok && env[k.Env()] != "" {
		text = env[k.Env()]
	}
	if flag, ok := flags[key]; ok {
		text = flag
	}
	return text
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
		if !strings.HasPrefix(name, envPrefix) || known[name] || isServiceLink(name, env[name]) ||
			isClientVariable(name) {
			continue
		}
		l.problem("unknown environment variable %s%s", name, l.advice(name, l.table.variables()))
	}
}

// originals applies the variables of the servers that the protocols come from,
// unless the same key is set in our own way.
func (l *loader) originals(env, flags map[string]string) {
	for _, s := range l.table.specs {
		for _, o := range s.Originals {
			text := env[o.Variable]
			if text == "" {
				continue
			}
			notice := Notice{Variable: o.Variable, Key: o.Key, Advice: o.Advice}
			if o.Key == "" {
				if err := o.Check(text); err != nil {
					l.problem("%s: %s", o.Variable, err)
				}
				l.config.notices = append(l.config.notices, notice)
				continue
			}
			k, ok := l.table.byName(o.Key)
			if !ok {
				panic("config: variable " + o.Variable + " stands for the unknown key " + o.Key)
			}
			_, flagged := flags[k.Name]
			notice.Used = env[k.Env()] == "" && !flagged
			if notice.Used {
				l.apply(k, text, Source{Layer: LayerOriginal, Name: o.Variable})
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
		file := l.settings[k.Name+SecretSuffix]
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
	for _, s := range l.table.specs {
		if s.Check != nil {
			s.Check(l)
		}
		if s.Listeners == nil {
			continue
		}
		for _, at := range s.Listeners(l.config) {
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
