package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

const (
	// fileSizeMax bounds the configuration file: the whole table with comments is
	// a few kilobytes.
	fileSizeMax = 256 << 10
	// secretSizeMax bounds a file that holds a secret.
	secretSizeMax = 64 << 10
	// unknownMax bounds how many unknown keys of a file are reported.
	unknownMax = 20
)

// file applies the TOML file.
func (l *loader) file(path string) {
	data, err := readBounded(path, fileSizeMax)
	if err != nil {
		l.problem("configuration file: %s", err)
		return
	}
	l.parse(path, data)
}

// parse applies the contents of a TOML file.
func (l *loader) parse(path string, data []byte) {
	var root map[string]toml.Primitive
	meta, err := toml.Decode(string(data), &root)
	if err != nil {
		if parseErr, ok := errors.AsType[toml.ParseError](err); ok {
			l.problem("%s:%d: %s", path, parseErr.Position.Line, parseErr.Message)
		} else {
			l.problem("%s: %s", path, err)
		}
		return
	}
	for _, kind := range []string{RuleCron, RuleHook, RuleQueue} {
		tables, ok := root[kind]
		if !ok {
			continue
		}
		delete(root, kind)
		var list []map[string]any
		if err := meta.PrimitiveDecode(tables, &list); err != nil {
			l.problem("%s: %s: %s", path, kind, err)
		} else {
			l.rules(kind, false, path, data, list)
		}
	}
	f := fileReader{loader: l, meta: &meta, path: path}
	f.table("", root)
	if f.unknown > unknownMax {
		l.problem("%s: %d more unknown keys", path, f.unknown-unknownMax)
	}
}

// fileReader walks the tables of a file.
type fileReader struct {
	*loader
	meta    *toml.MetaData
	path    string
	unknown int
}

// table applies the keys of one TOML table, in the order of their names so that
// messages come in the same order each time.
func (f *fileReader) table(prefix string, entries map[string]toml.Primitive) {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f.entry(prefix+name, entries[name])
	}
}

func (f *fileReader) entry(name string, value toml.Primitive) {
	k, isKey := f.loader.table.byName(name)
	isSection := !isKey && f.isSection(name)
	if !isKey && !isSection {
		if f.unknown++; f.unknown > unknownMax {
			return // to find a line costs time in proportion to the file
		}
	}
	at := f.leaf(value)
	from := Source{Layer: LayerFile, Name: f.path, Line: at.line}
	switch {
	case isKey:
		text, err := k.fromTOML(at.value)
		if err != nil {
			f.problem("%s: %s: %s", from, name, err)
			return
		}
		f.apply(k, text, from)
	case isSection:
		// The decoder takes anything for an empty table, so ask first.
		var entries map[string]toml.Primitive
		_, isTable := at.value.(map[string]any)
		if !isTable || f.meta.PrimitiveDecode(value, &entries) != nil {
			f.problem("%s: %s is a section with keys of its own, not a value: write [%s]", from, name, name)
			return
		}
		f.table(name+".", entries)
	default:
		f.problem("%s: unknown key %q%s", from, name, f.advice(name, f.candidates(name)))
	}
}

// isSection reports whether keys of the table lie below name.
func (f *fileReader) isSection(name string) bool {
	return slices.ContainsFunc(f.loader.table.keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// candidates returns what an unknown name may have been meant to be: a key, or a
// section of the same depth.
func (f *fileReader) candidates(name string) []string {
	list := f.names()
	for _, k := range f.loader.table.keys {
		parts := strings.Split(k.Name, ".")
		if depth := strings.Count(name, ".") + 1; depth < len(parts) {
			list = append(list, strings.Join(parts[:depth], "."))
		}
	}
	return list
}

func (f *fileReader) names() []string { return f.loader.table.names() }

// leaf is a value of the file and its line. It is an Unmarshaler that always
// answers with an error, because the TOML package tells the position of a key
// only in errors.
type leaf struct {
	value any
	line  int
}

var errPosition = errors.New("position wanted")

// UnmarshalTOML keeps the value and asks for its position.
func (l *leaf) UnmarshalTOML(value any) error {
	l.value = value
	return errPosition
}

func (f *fileReader) leaf(value toml.Primitive) leaf {
	var at leaf
	err := f.meta.PrimitiveDecode(value, &at)
	if parseErr, ok := errors.AsType[toml.ParseError](err); ok {
		at.line = parseErr.Position.Line
	}
	return at
}

// fromTOML returns the text form of a value from the file, which has types of its
// own.
func (k Key) fromTOML(value any) (string, error) {
	switch v := value.(type) {
	case string:
		if k.Kind == KindBool || k.Kind == KindInt {
			return "", fmt.Errorf("%q is text: write it without quotes", v)
		}
		return v, nil
	case bool:
		if k.Kind == KindBool {
			return fmt.Sprint(v), nil
		}
	case int64:
		if k.Kind == KindInt || k.Kind == KindSize {
			return fmt.Sprint(v), nil
		}
	case []any:
		if k.Kind == KindAddresses {
			return JoinStrings(v)
		}
	}
	if k.Kind == KindBool {
		return "", errors.New("write true or false")
	}
	if k.Kind == KindInt {
		return "", errors.New("write a whole number")
	}
	return "", fmt.Errorf("write text in quotes, for example %q", or(k.Default, "..."))
}

// JoinStrings turns an array of the file into the form that lists have elsewhere.
func JoinStrings(list []any) (string, error) {
	texts := make([]string, 0, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return "", errors.New("write a list of texts in quotes")
		}
		texts = append(texts, s)
	}
	return strings.Join(texts, ", "), nil
}

// ReadFile reads a file that another server is configured with.
func ReadFile(path string) ([]byte, error) { return readBounded(path, fileSizeMax) }

// ReadSecret reads a secret from a file.
func ReadSecret(path string) (string, error) { return readSecret(path) }

// readSecret reads a secret from a file, without the line end that editors add.
func readSecret(path string) (string, error) {
	data, err := readBounded(path, secretSizeMax)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty: write the secret into it", path)
	}
	return text, nil
}

// readBounded reads a file whose size must not exceed sizeMax.
func readBounded(path string, sizeMax int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(file, sizeMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > sizeMax {
		return nil, fmt.Errorf("%s is larger than %s: is it the right file?", path, formatSize(uint64(sizeMax))) //nolint:gosec // positive
	}
	return data, nil
}
