package box15

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"millrace/internal/testkit"
)

// packet reads hexadecimal digits with spaces between them; what is in quotes is taken as it is.
func packet(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return b
}

// digits turns the quoted parts of a packet into hexadecimal digits and drops the spaces of the others.
func digits(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			out.WriteString(hex.EncodeToString([]byte(part)))
		} else {
			out.WriteString(strings.ReplaceAll(part, " ", ""))
		}
	}
	return out.String()
}

const putRecorded = `16000000 27000000 d3d350a6 00000000 09"queue.put" 07000000 01"0" 02"t1" 01"0" 02"60" 02"10" 01"5" 05"hello"`

// TestRecorded reads and writes what was recorded with a client of that time.
func TestRecorded(t *testing.T) {
	t.Parallel()
	put := packet(t, putRecorded)
	h := ParseHeader(put)
	if want := (Header{Kind: KindCall, Size: 39, Sync: 0xa650d3d3}); h != want {
		t.Fatalf("header %+v, want %+v", h, want)
	}
	body := put[HeaderSize:]
	if len(body) != int(h.Size) {
		t.Fatalf("%d bytes of body", len(body))
	}
	name, args, err := ParseCall(body)
	if err != nil || string(name) != "queue.put" {
		t.Fatalf("procedure %q, %v", name, err)
	}
	var got []string
	for {
		field, ok := args.Next()
		if !ok {
			break
		}
		got = append(got, string(field))
	}
	if strings.Join(got, "|") != "0|t1|0|60|10|5|hello" {
		t.Errorf("arguments %q", got)
	}

	const id = "0123456789abcdef0123456789abcdef"
	reply := BeginRows(nil, h)
	row := len(reply)
	reply = BeginRow(reply)
	for _, field := range []string{id, "t1", "ready", "hello"} {
		reply = AppendField(reply, field)
	}
	reply = EndRows(EndRow(reply, row, 4), 0, 1)
	want := packet(t,
		`16000000 40000000 d3d350a6 00000000 01000000 30000000 04000000 20"`+id+`" 02"t1" 05"ready" 05"hello"`)
	if !bytes.Equal(reply, want) {
		t.Errorf("reply\n%x, want\n%x", reply, want)
	}
	refused := AppendError(nil, h, CodeRaised, "Task not found")
	if want := packet(t, `16000000 13000000 d3d350a6 02330000 "Task not found" 00`); !bytes.Equal(refused, want) {
		t.Errorf("error\n%x, want\n%x", refused, want)
	}
}

// TestReplies writes replies behind others, which must stay as they are.
func TestReplies(t *testing.T) {
	t.Parallel()
	out := Begin([]byte("before"), Header{Kind: KindPing, Sync: 7})
	if want := packet(t, `"before" 00ff0000 00000000 07000000`); !bytes.Equal(out, want) {
		t.Errorf("ping %x, want %x", out, want)
	}
	h := Header{Kind: KindCall, Sync: 9, Size: 1234}
	out = EndRows(BeginRows([]byte("before"), h), len("before"), 0)
	if want := packet(t, `"before" 16000000 08000000 09000000 00000000 00000000`); !bytes.Equal(out, want) {
		t.Errorf("no rows: %x, want %x", out, want)
	}
	out = BeginRows([]byte("before"), h)
	row := len(out)
	out = AppendUint64(AppendUint32(BeginRow(out), 0x01020304), 0x0102030405060708)
	out = EndRows(EndRow(out, row, 2), len("before"), 1)
	if want := packet(t, `"before" 16000000 1e000000 09000000 00000000 01000000 0e000000 02000000 04 04030201 08 0807060504030201`); !bytes.Equal(out, want) {
		t.Errorf("numbers: %x, want %x", out, want)
	}
	for code, want := range map[uint32]string{
		CodeBadParams: "02020000", CodeUnsupported: "020a0000", CodeNoProcedure: "02320000", CodeRaised: "02330000",
	} {
		if got := hex.EncodeToString(AppendError(nil, h, code, "")); got != "160000000500000009000000"+want+"00" {
			t.Errorf("error %x is %s", code, got)
		}
	}
}

// TestLength shows the lengths where one more byte is needed.
func TestLength(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "00", 1: "01", 127: "7f", 128: "8100", 300: "822c", 16383: "ff7f", 16384: "818000", 2097151: "ffff7f",
		2097152:   "81808000",
		268435455: "ffffff7f", 268435456: "8180808000", 1<<32 - 1: "8fffffff7f",
	} {
		if got := hex.EncodeToString(appendLength(nil, n)); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 2097152} {
		b := AppendField(nil, make([]byte, n))
		field, rest, ok := cutField(append(b, "rest"...))
		if !ok || len(field) != n || string(rest) != "rest" {
			t.Errorf("field of %d bytes: %d, %q, %v", n, len(field), rest, ok)
		}
	}
}

// TestMalformed shows that nothing is read beyond what is there.
func TestMalformed(t *testing.T) {
	t.Parallel()
	good := packet(t, putRecorded)[HeaderSize:]
	for n := range good {
		if _, _, err := ParseCall(good[:n]); !errors.Is(err, errBody) {
			t.Errorf("the first %d bytes are taken", n)
		}
	}
	for name, body := range map[string]string{
		"more than the tuple":          `00000000 01"f" 00000000 00`,
		"more fields than there are":   `00000000 01"f" ffffffff 01"a"`,
		"a length that never ends":     `00000000 01"f" 01000000 ffffffffffffffffff`,
		"a length of six bytes":        `00000000 01"f" 01000000 808080808001 61`,
		"a length beyond the body":     `00000000 01"f" 01000000 8fffffff7f 61`,
		"a name longer than the body":  `00000000 7f"f" 00000000`,
		"no tuple":                     `00000000 01"f"`,
		"three quarters of a tuple":    `00000000 01"f" 000000`,
		"fewer fields than there are":  `00000000 01"f" 01000000 01"a" 01"b"`,
		"a length that is cut short":   `00000000 01"f" 01000000 81`,
		"flags that are not all there": `000000`,
	} {
		if _, _, err := ParseCall(packet(t, body)); !errors.Is(err, errBody) {
			t.Errorf("%s: %v", name, err)
		}
	}
	name, args, err := ParseCall(packet(t, `ffffffff 00 02000000 00 8001"a"`))
	if err != nil || len(name) != 0 || args.left != 2 {
		t.Fatalf("flags, an empty name, a long length: %q, %+v, %v", name, args, err)
	}
	first, _ := args.Next()
	second, _ := args.Next()
	if _, more := args.Next(); len(first) != 0 || string(second) != "a" || more {
		t.Errorf("fields %q, %q", first, second)
	}
}

// FuzzCall feeds a packet to the readers: nothing panics, what is read is made of
// what is there, and writing it again gives a packet that reads the same.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{
		"00ff0000 00000000 01000000", "16000000 ffffffff 00000000 00000000", "11000000 00000000 ffffffff",
		`16000000 00000000 00000000 00000000 0a"queue.take" 03000000 01"0" 01"q" 03"0.5"`,
		`16000000 00000000 00000000 00000000 01"f" ffffffff 01"a"`,
		`16000000 00000000 00000000 00000000 01"f" 01000000 808080808001`,
	} {
		b, err := hex.DecodeString(digits(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) < HeaderSize {
			return // the connection waits for more
		}
		h := ParseHeader(packet)
		if again := Begin(nil, h); ParseHeader(again).Kind != h.Kind || ParseHeader(again).Sync != h.Sync {
			t.Fatalf("header %+v is written as %x", h, again)
		}
		var (
			name []byte
			args Fields
			err  error
		)
		testkit.Bounded(t, len(packet), func() { name, args, err = ParseCall(packet[HeaderSize:]) })
		if err != nil {
			return
		}
		if args.left > len(packet) {
			t.Fatalf("%d fields in %d bytes", args.left, len(packet))
		}
		again := AppendField(make([]byte, 4), name)
		again = binary.LittleEndian.AppendUint32(again, uint32(args.left))
		var fields [][]byte
		for {
			field, ok := args.Next()
			if !ok {
				break
			}
			fields = append(fields, field)
			again = AppendField(again, field)
		}
		if len(again) > len(packet)-HeaderSize {
			t.Fatalf("%d bytes became %d", len(packet)-HeaderSize, len(again))
		}
		name2, args2, err := ParseCall(again)
		if err != nil || !bytes.Equal(name, name2) {
			t.Fatalf("%x is read as %q, %v", again, name2, err)
		}
		for _, want := range fields {
			if got, ok := args2.Next(); !ok || !bytes.Equal(got, want) {
				t.Fatalf("field %q, want %q", got, want)
			}
		}
	})
}
