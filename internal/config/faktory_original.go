package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"
)

// faktoryOriginal applies the configuration directory of the original server, if one is
// named.
func faktoryOriginal(l *loader, env, flags map[string]string) {
	const key = "faktory.config_dir"
	k, ok := l.table.byName(key)
	if !ok {
		return
	}
	dir := l.settings[key].text
	if text := env[k.Env()]; text != "" {
		dir = text
	}
	if text, ok := flags[key]; ok {
		dir = text
	}
	if dir == "" {
		return
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.problem("%s: %s is not a directory", key, dir)
		return
	}
	o := faktoryReader{l}
	confDir := filepath.Join(dir, "conf.d")
	files, err := os.ReadDir(confDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.problem("%s: %s", key, err)
		return
	}
	for _, f := range files { // in alphabetical order: of a key that comes twice the last counts
		if filepath.Ext(f.Name()) == ".toml" {
			o.file(filepath.Join(confDir, f.Name()))
		}
	}
	o.tls(dir)
}

// faktoryReader applies the original's files.
type faktoryReader struct{ *loader }

// set gives a key a value, unless our own file has set it.
func (o faktoryReader) set(key, text string, from Source) {
	for _, name := range []string{key, key + secretSuffix} {
		if s, ok := o.settings[name]; ok && s.Source.Layer == LayerFile {
			return
		}
	}
	if k, ok := o.table.byName(key); ok {
		o.apply(k, text, from)
	}
}

// faktorySections are the sections that are understood: our keys by those of the original.
var faktorySections = map[string]map[string]string{
	"faktory": {"password": faktoryPassword, "binding": "faktory.addr"},
	"web":     {"password": webPassword, "binding": "web.addr"},
}

// file applies one file.
func (o faktoryReader) file(path string) {
	data, err := readBounded(path, fileSizeMax)
	if err != nil {
		o.problem("faktory.config_dir: %s", err)
		return
	}
	var root map[string]any
	if _, err := toml.Decode(string(data), &root); err != nil {
		o.problem("%s: %s", path, err)
		return
	}
	names := make([]string, 0, len(root))
	for name := range root {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case faktorySections[name] != nil:
			o.section(path, name, root[name])
		case name == RuleCron:
			o.rules(RuleCron, true, path, data, root[name])
		case name == RuleThrottles:
			o.throttles(path, data, root[name])
		default:
			o.ignore(path, name)
		}
	}
}

func (o faktoryReader) ignore(path, name string) {
	if f := &o.config.Faktory; len(f.Ignored) < unknownMax {
		f.Ignored = append(f.Ignored, path+", "+name)
	}
}

// section applies the section of the server itself, or of its web UI.
func (o faktoryReader) section(path, section string, value any) {
	entries, ok := value.(map[string]any)
	if !ok {
		o.problem("%s: %[2]s is a section with keys of its own, not a value: write [%[2]s]", path, section)
		return
	}
	keys := faktorySections[section]
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
		text, ok := entries[name].(string)
		if !ok {
			o.problem("%s: %s: write text in quotes", path, original)
			continue
		}
		o.set(keys[name], text, Source{Layer: LayerOriginal, Name: fmt.Sprintf("%s, %s", path, original)})
	}
}

// tls turns TLS on if both files are there.
func (o faktoryReader) tls(dir string) {
	key, cert := filepath.Join(dir, "private.key.pem"), filepath.Join(dir, "public.cert.pem")
	for _, path := range []string{key, cert} {
		if _, err := os.Stat(path); err != nil {
			return
		}
	}
	// Of a pair that is set elsewhere, neither half is replaced.
	for _, name := range []string{"faktory.tls.cert", "faktory.tls.key"} {
		if o.settings[name].Source.Layer == LayerFile {
			return
		}
	}
	from := Source{Layer: LayerOriginal, Name: dir}
	o.set("faktory.tls.key", key, from)
	o.set("faktory.tls.cert", cert, from)
}
