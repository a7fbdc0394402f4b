package tarantool_test

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"millrace/internal/dialect/dialecttest"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
	"millrace/internal/testkit"
)

// TestLegacyTranscripts plays the files legacy_*.txt and box15_*.txt in testdata as TestTranscripts
// does with others. What differs from run to run, or is hard to read, has names in them:
//
//	@1      the first id of a task that any client was told, @2 the next
//	T+2.5   2.5 seconds after the beginning, in microseconds since 1970
//	C+1     the number of the first connection
//
// The verbs are
//
//	speak 1.5, speak iproto   what clients speak that connect from now on
//	namespace NAME            serves in another namespace from now on
//	restart                   stops the server and opens it again on the same store
func TestLegacyTranscripts(t *testing.T) {
	t.Parallel()
	dialecttest.EachFile(t, playLegacy, "legacy_*.txt", "box15_*.txt")
}

func playLegacy(t *testing.T, file string) {
	t.Helper()
	s := dialecttest.Start(t)
	o := tarantool.Options{MaxPacket: 1 << 20}
	var listeners [2]*testkit.Listener
	serve := func() {
		o.Engine = s.Engine
		d := tarantool.New(o)
		listeners = [2]*testkit.Listener{s.Serve(d, 4<<20), s.Serve(d.Box15(), 4<<20)}
	}
	serve()
	speak, names := 0, &legacyNames{start: time.Now()}
	tr := &testkit.Transcript{
		Path: file,
		Dial: func() (*testkit.Conn, error) {
			wire, err := listeners[speak].Dial()
			if err != nil {
				return nil, err
			}
			lines, inner := testkit.Pipe(4 << 20)
			if speak == 0 {
				tarantooltest.Interpret(inner, wire)
			} else {
				tarantooltest.Interpret15(inner, wire)
			}
			client, outer := testkit.Pipe(4 << 20)
			go names.pass(outer, lines, names.meant)
			go names.pass(lines, outer, names.named)
			return client, nil
		},
		Verbs: map[string]func(string) error{
			"speak": func(what string) error {
				speak = slices.Index([]string{"iproto", "1.5"}, what)
				return nil
			},
			"namespace": func(name string) error {
				o.Namespace = name
				serve()
				return nil
			},
			"restart": func(string) error {
				s.Restart(t)
				serve()
				return nil
			},
		},
	}
	defer func() { s.Stop(t) }()
	tr.Run(t)
}

// legacyNames gives names to ids, times and connections.
type legacyNames struct {
	start time.Time
	mu    sync.Mutex // guards ids
	ids   []string
}

// pass passes lines on, translated, until there are no more.
func (n *legacyNames) pass(from, to *testkit.Conn, translate func(string) string) {
	r := bufio.NewReaderSize(from, 4<<20)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			_ = to.CloseWrite() // it cannot fail
			return
		}
		// What has come at once goes on at once.
		all := translate(line)
		for r.Buffered() > 0 {
			if line, err = r.ReadString('\n'); err != nil {
				break
			}
			all += translate(line)
		}
		_, _ = io.WriteString(to, all) // whoever is gone does not mind
	}
}

var (
	idName     = regexp.MustCompile(`@\d+`)
	quotedID   = regexp.MustCompile(`"[0-9a-f]{32}"`)
	longNumber = regexp.MustCompile(`\b\d{10,16}\b`)
)

// meant puts what is meant for the names of ids.
func (n *legacyNames) meant(line string) string {
	return idName.ReplaceAllStringFunc(line, func(name string) string {
		n.mu.Lock()
		defer n.mu.Unlock()
		i, err := strconv.Atoi(name[1:])
		if err != nil || i < 1 || i > len(n.ids) {
			return name // which is no value, and refused
		}
		return n.ids[i-1]
	})
}

// named puts names for what has one.
func (n *legacyNames) named(line string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	line = quotedID.ReplaceAllStringFunc(line, func(id string) string {
		i := slices.Index(n.ids, id)
		if i < 0 {
			i = len(n.ids)
			n.ids = append(n.ids, id)
		}
		return "@" + strconv.Itoa(i+1)
	})
	firstHolder := n.start.UnixNano() &^ 0xffffff & 0xffffffff
	return longNumber.ReplaceAllStringFunc(line, func(text string) string {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return text
		}
		if d := time.UnixMicro(number).Sub(n.start); d >= 0 && d < 100*24*time.Hour {
			return "T+" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
		if c := number - firstHolder; c > 0 && c < 1000 {
			return "C+" + strconv.FormatInt(c, 10)
		}
		return text
	})
}
