package workq

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/testkit"
)

// naive reads a line as the protocol's document says, without regard to speed: a
// second opinion. It returns the size of the block, or noBlock, and the error text.
func naive(line string) (size int, text string) {
	words := strings.Split(line, " ")
	var args []string
	flags := map[string]string{}
	for i, w := range words {
		switch {
		case w == "":
		case strings.HasPrefix(w, "-") && strings.Contains(w, "="):
			parts := strings.Split(w[1:], "=")
			if _, twice := flags[parts[0]]; twice || parts[0] == "" || parts[1] == "" {
				return noBlock, textFlags
			}
			flags[parts[0]] = parts[1]
		case i > 0:
			args = append(args, w)
		}
	}
	blocks := map[string]int{"add": 5, "schedule": 6, "run": 5, "complete": 2, "fail": 2}
	if n, ok := blocks[words[0]]; ok {
		if len(args) != n {
			return noBlock, textArgs
		}
		size, err := strconv.Atoi(args[n-1])
		if err != nil || size < 0 || size > DefaultMaxPayload {
			if words[0] == "fail" {
				return noBlock, textResultSize
			}
			return noBlock, textPayloadSize
		}
		return size, naiveBlock(words[0], args, flags)
	}
	return noBlock, naiveLine(words[0], args, len(flags))
}

var (
	naiveUUID  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	naiveName  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,255}$`)
	naivePlace = regexp.MustCompile(`(?i)6d696c6c-[0-9a-f]{4}-8[0-9a-f]{3}-8`)
)

func naiveID(s string) bool {
	if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && len(s) > 1 {
		s = s[1 : len(s)-1]
	} else {
		s = strings.TrimPrefix(s, "urn:uuid:")
	}
	return naiveUUID.MatchString(s)
}

func naiveZero(s string) bool {
	return strings.Trim(strings.TrimPrefix(strings.Trim(s, "{}"), "urn:uuid:"), "-0") == ""
}

func bad(s string, bits int) bool {
	_, err := strconv.ParseUint(s, 10, bits)
	return err != nil
}

func over(s string, least, most uint64) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err != nil || n < least || n > most
}

func badInt(s string) bool {
	_, err := strconv.ParseInt(s, 10, 32)
	return err != nil
}

// naiveBlock checks the arguments of a command with a block, except for its size.
func naiveBlock(verb string, args []string, flags map[string]string) string {
	given := func(key string, wrong func(string) bool) bool { v, ok := flags[key]; return ok && wrong(v) }
	most := map[string]int{"add": 3, "schedule": 3, "run": 1}[verb]
	for _, ours := range []string{"group", "traceparent"} {
		if _, ok := flags[ours]; ok && most > 0 {
			most++
		}
	}
	settles := verb == "complete" || verb == "fail"
	byteWrong := func(s string) bool { return bad(s, 8) }
	_, timeErr := time.Parse(timeLayout, args[min(4, len(args)-1)])
	checks := []struct {
		wrong bool
		text  string
	}{
		{len(flags) > most || most > 0 && len(flags["group"]) > dialect.GroupMax, textArgs},
		{!naiveID(args[0]), textID},
		{settles && naiveZero(args[0]), textID},
		{!settles && bad(args[min(2, len(args)-1)], 32), textTTR},
		{!settles && verb != "run" && bad(args[min(3, len(args)-1)], 64), textTTL},
		{verb == "schedule" && timeErr != nil, textTime},
		{!settles && verb != "run" && given("max-attempts", byteWrong), textMaxAttempts},
		{!settles && verb != "run" && given("max-fails", byteWrong), textMaxFails},
		{!settles && given("priority", badInt), textPriority},
		{verb == "run" && over(args[min(3, len(args)-1)], 0, waitMax), textWait},
		{!settles && (naiveZero(args[0]) || naivePlace.MatchString(args[0])), textID},
		{!settles && !naiveName.MatchString(args[1]), textName},
		{!settles && over(args[min(2, len(args)-1)], 1, ttrMax), textTTR},
		{!settles && verb != "run" && args[min(3, len(args)-1)] != "" &&
			strings.Trim(args[min(3, len(args)-1)], "0") == "", textTTL},
	}
	for _, c := range checks {
		if c.wrong {
			return c.text
		}
	}
	return ""
}

// naiveLine checks a command without a block.
func naiveLine(verb string, args []string, flags int) string {
	counts := map[string]int{"server": 1, "queues": 3, "queue": 2, "jobs": 4, "scheduled-jobs": 4, "job": 2}
	switch verb {
	case "delete", "result":
		want := map[string]int{"delete": 1, "result": 2}[verb]
		switch {
		case len(args) != want || flags > 0:
			return textArgs
		case !naiveID(args[0]) || naiveZero(args[0]):
			return textID
		case verb == "result" && over(args[1], 0, waitMax):
			return textWait
		}
		return ""
	case "lease":
		if len(args) < 2 || len(args) > leaseNamesMax+1 || flags > 0 {
			return textArgs
		}
		if over(args[len(args)-1], 0, waitMax) {
			return textWait
		}
		for _, name := range args[:len(args)-1] {
			if !naiveName.MatchString(name) {
				return textName
			}
		}
		return ""
	case "inspect":
	default:
		return textUnknown
	}
	if len(args) == 0 {
		return textArgs
	}
	n, known := counts[args[0]]
	switch {
	case !known:
		return textUnknown
	case len(args) != n || flags > 0:
		return textArgs
	case args[0] == "job" && (!naiveID(args[1]) || naiveZero(args[1])):
		return textID
	case n != 1 && n != 3 && args[0] != "job" && !naiveName.MatchString(args[1]):
		return textName
	case n >= 3 && over(args[n-2], 0, 1<<32-1):
		return textOffset
	case n >= 3 && over(args[n-1], 1, limitMax):
		return textLimit
	}
	return ""
}

var lineSeeds = []string{
	"", " ", "add", " add", "ADD", "inspect", "inspect server", "inspect queues 0 100", "inspect queue q",
	"inspect jobs q 0 1",
	"inspect scheduled-jobs q 4294967295 100", "inspect job 6ba7b810-9dad-11d1-80b4-00c04fd430c4", "inspect what",
	"inspect jobs q 4294967296 1", "inspect jobs q 0 101",
	"add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1000 60000 4 -priority=10 -max-attempts=3 -max-fails=1",
	"add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1000 60000 4 -priority=10 -max-attempts=3 -max-fails=1 -group=g " +
		"-traceparent=00-x",
	"add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1000 60000 4 -priority=10 -group=g -traceparent=a " +
		"-traceparent=b -x=y -z=y",
	"add {6BA7B810-9dad-11d1-80b4-00c04fd430c4}  ping 1 18446744073709551615 +4 -priority=-2147483648",
	"add urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c4 p.i_n-g 86400000 18446744073709551616 1048576",
	"add -a=b=c 00000000-0000-0000-0000-000000000000 ping 0 0 1048577",
	"add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1 0 -0", "add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1 1 -1",
	"add 6d696c6c-0000-8000-8100-000000000001 ping 1 1 1",
	"add 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1 1 1 -a=1 -b=1 -c=1 -d=1",
	"add x x x x 1 -a=1 -b=1 -c=1 -d=1 -e=1 -d=1",
	"schedule 6ba7b810-9dad-11d1-80b4-00c04fd430c7 ping 1000 2000 2016-06-14T06:46:46Z 4",
	"schedule 6ba7b810-9dad-11d1-80b4-00c04fd430c7 ping 1000 2000 2016-06-14T06:46:46.5Z 4",
	"schedule 6ba7b810-9dad-11d1-80b4-00c04fd430c7 ping 1000 2000 2016-06-14T06:46:46+01:00 4",
	"schedule 6ba7b810-9dad-11d1-80b4-00c04fd430c7 ping 1000 00 2016-06-14T06:46:46Z 4 -max-fails=256",
	"run 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1000 60000 4",
	"run 6ba7b810-9dad-11d1-80b4-00c04fd430c4 p!ng 86400001 86400001 4 -priority=+1",
	"run 6ba7b810-9dad-11d1-80b4-00c04fd430c4 ping 1 0 4 -a=1 -b=2",
	"result 6ba7b810-9dad-11d1-80b4-00c04fd430c4 60000", "result x -1", "lease ping1 ping2 ping3 60000", "lease 0",
	"lease a 86400001", "lease a\x00 0", "lease a 0 -x=1", "lease  a   0  ",
	"complete 6ba7b810-9dad-11d1-80b4-00c04fd430c4 4", "complete 6ba7b810-9dad-11d1-80b4-00c04fd430c4 4 -a=1",
	"fail 6ba7b810-9dad-11d1-80b4-00c04fd430c4 4x", "fail x 1", "delete 6ba7b810-9dad-11d1-80b4-00c04fd430c4",
	"delete 00000000-0000-0000-0000-000000000000", "-a=1", "-=1", "-a=1 -a=2", "add -priority", "what -x=",
	"delete -1", "\r", "add\t1",
}

// FuzzParse feeds one command line to the parser: whatever it is, nothing panics,
// the naive reader agrees, and nothing is larger than the line.
func FuzzParse(f *testing.F) {
	for _, s := range lineSeeds {
		f.Add(s)
	}
	p := &parser{maxBlock: DefaultMaxPayload}
	r := new(request)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return // never part of a line
		}
		testkit.Bounded(t, len(line), func() { p.parse([]byte(line), r) })
		size, text := naive(line)
		if r.size != size || r.text != text {
			t.Fatalf("%q: block %d, text %q; want %d, %q", line, r.size, r.text, size, text)
		}
		if text != "" {
			return
		}
		total := len(r.name)
		for _, name := range r.names {
			total += len(name)
		}
		if total > len(line) || len(r.names) > leaseNamesMax || r.limit > limitMax || r.size > DefaultMaxPayload {
			t.Fatalf("%q gives %+v", line, r)
		}
		if again, ok := dialect.ParseUUID(r.id.String()); !ok || again != r.id {
			t.Fatalf("%q: id %s", line, r.id)
		}
	})
}
