package dialecttest

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/testkit"
)

// EachFile runs play in a bubble for every file in testdata that a pattern names. There must be several for each.
func EachFile(t *testing.T, play func(t *testing.T, file string), patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(files) < 3 {
			t.Fatalf("transcripts %s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { play(t, file) })
			})
		}
	}
}

// Transcripts plays files in testdata against the real engine. O are the options of the dialect. Besides the lines of
// testkit.Transcript the files know
//
//	server KEY=VALUE...   serves with other options from now on; the key is a field's name in lower case
//	restart               stops the server and opens it again on the same store
type Transcripts[O any] struct {
	Files []string // patterns; nil: *.txt
	EOL   string
	// Serve serves the dialect on an engine.
	Serve func(s *Server, o O) *testkit.Listener
	// Dial connects a client; nil: as the listener does.
	Dial func(l *testkit.Listener) (*testkit.Conn, error)
	// Set sets an option that is no field of that name, if it knows it; it may be nil.
	Set func(o *O, key, value string) (known bool, err error)
	// HTTP returns what a file of requests and answers needs; nil: it is no such file.
	HTTP func(s *Server) *testkit.HTTP
	// Verbs are lines of the protocol's own; it may be nil.
	Verbs func(t *testing.T, s *Server) map[string]func(args string) error
}

// Run plays them all.
func (tr Transcripts[O]) Run(t *testing.T) {
	t.Helper()
	if tr.Files == nil {
		tr.Files = []string{"*.txt"}
	}
	if tr.Dial == nil {
		tr.Dial = (*testkit.Listener).Dial
	}
	EachFile(t, tr.play, tr.Files...)
}

func (tr Transcripts[O]) play(t *testing.T, file string) {
	t.Helper()
	s := Start(t)
	defer func() { s.Stop(t) }()
	var opts O
	l := tr.Serve(s, opts)
	verbs := map[string]func(string) error{}
	if tr.Verbs != nil {
		verbs = tr.Verbs(t, s)
	}
	verbs["server"] = func(args string) error {
		opts = *new(O)
		for arg := range strings.FieldsSeq(args) {
			key, value, _ := strings.Cut(arg, "=")
			if err := tr.set(&opts, key, value); err != nil {
				return err
			}
		}
		l = tr.Serve(s, opts)
		return nil
	}
	verbs["restart"] = func(string) error {
		s.Restart(t)
		l = tr.Serve(s, opts)
		return nil
	}
	script := &testkit.Transcript{
		Path: file, EOL: tr.EOL, Verbs: verbs,
		Dial: func() (*testkit.Conn, error) { return tr.Dial(l) },
	}
	if tr.HTTP != nil {
		script.HTTP = tr.HTTP(s)
	}
	script.Run(t)
}

func (tr Transcripts[O]) set(o *O, key, value string) error {
	if tr.Set != nil {
		if known, err := tr.Set(o, key, value); known {
			return err
		}
	}
	return SetOption(o, key, value)
}

// SetOption sets a field of a struct, whose name is spelled in lower case, with or without underscores.
func SetOption(o any, key, value string) error {
	name := strings.ReplaceAll(key, "_", "")
	field := reflect.ValueOf(o).Elem().FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, name)
	})
	if !field.IsValid() {
		return fmt.Errorf("no option %q", key)
	}
	if d, ok := reflect.TypeAssert[*time.Duration](field.Addr()); ok {
		v, err := time.ParseDuration(value)
		*d = v
		return err
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err == nil {
		field.Set(reflect.ValueOf(n).Convert(field.Type()))
	}
	return err
}
