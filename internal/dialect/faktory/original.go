package faktory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"

	"millrace/internal/config"
)

// original applies the configuration directory of the original server, if one is
// named.
func original(l *config.Loader, env, flags map[string]string) {
	const key = "faktory.config_dir"
	dir := l.Final(key, env, flags)
	if dir == "" {
		return
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.Problem("%s: %s is not a directory", key, dir)
		return
	}
	o := originalReader{l}
	confDir := filepath.Join(dir, "conf.d")
	files, err := os.ReadDir(confDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.Problem("%s: %s", key, err)
		return
	}
	for _, f := range files { // in alphabetical order: of a key that comes twice the last counts
		if filepath.Ext(f.Name()) == ".toml" {
			o.file(filepath.Join(confDir, f.Name()))
		}
	}
	o.tls(dir)
}

// originalReader applies the original's files.
type originalReader struct{ *config.Loader }

// set gives a key a value, unless our own file has set it.
func (o originalReader) set(key, text string, from config.Source) {
	if o.Layer(key) != config.LayerFile && o.Layer(key+config.SecretSuffix) != config.LayerFile {
		o.Set(key, text, from)
	}
}

// originalSections are the sections that are understood: our keys by those of the original.
var originalSections = map[string]map[string]string{
	"faktory": {"password": passwordKey, "binding": "faktory.addr"},
	"web":     {"password": "web.password", "binding": "web.addr"},
	"statsd": {
		"location": "statsd.addr", "namespace": "statsd.namespace",
		"tags": "statsd.tags", "queueLatency": "statsd.latency_queues",
	},
}

// originalLists are those of our keys that are lists there.
var originalLists = []string{"statsd.tags", "statsd.latency_queues"}

// file applies one file.
func (o originalReader) file(path string) {
	data, err := config.ReadFile(path)
	if err != nil {
		o.Problem("faktory.config_dir: %s", err)
		return
	}
	var root map[string]any
	if _, err := toml.Decode(string(data), &root); err != nil {
		o.Problem("%s: %s", path, err)
		return
	}
	names := make([]string, 0, len(root))
	for name := range root {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case originalSections[name] != nil:
			o.section(path, name, root[name])
		case name == config.RuleCron:
			o.Rules(config.RuleCron, path, data, root[name])
		case name == config.SectionThrottles:
			o.Throttles(path, data, root[name])
		default:
			o.ignore(path, name)
		}
	}
}

// ignoredMax bounds how many unknown keys are told.
const ignoredMax = 20

func (o originalReader) ignore(path, name string) {
	if f := settings(o.Config()); len(f.Ignored) < ignoredMax {
		f.Ignored = append(f.Ignored, path+", "+name)
	}
}

// section applies a section of settings.
func (o originalReader) section(path, section string, value any) {
	entries, ok := value.(map[string]any)
	if !ok {
		o.Problem("%s: %[2]s is a section with keys of its own, not a value: write [%[2]s]", path, section)
		return
	}
	keys := originalSections[section]
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		original := section + "." + name
		if keys[name] == "" {
			o.ignore(path, original)
			continue
		}
		text, err := originalText(entries[name], slices.Contains(originalLists, keys[name]))
		if err != nil {
			o.Problem("%s: %s: %s", path, original, err)
			continue
		}
		o.set(keys[name], text, config.Source{Layer: config.LayerOriginal, Name: fmt.Sprintf("%s, %s", path, original)})
	}
}

// originalText returns the text form of a value.
func originalText(value any, list bool) (string, error) {
	switch v := value.(type) {
	case string:
		if !list {
			return v, nil
		}
	case []any:
		if list {
			return config.JoinStrings(v)
		}
	}
	if list {
		return "", errors.New("write a list of texts in quotes")
	}
	return "", errors.New("write text in quotes")
}

// tls turns TLS on if both files are there.
func (o originalReader) tls(dir string) {
	key, cert := filepath.Join(dir, "private.key.pem"), filepath.Join(dir, "public.cert.pem")
	for _, path := range []string{key, cert} {
		if _, err := os.Stat(path); err != nil {
			return
		}
	}
	// Of a pair that is set elsewhere, neither half is replaced.
	for _, name := range []string{"faktory.tls.cert", "faktory.tls.key"} {
		if o.Layer(name) == config.LayerFile {
			return
		}
	}
	from := config.Source{Layer: config.LayerOriginal, Name: dir}
	o.set("faktory.tls.key", key, from)
	o.set("faktory.tls.cert", cert, from)
}
