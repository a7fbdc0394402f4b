package beanstalkd

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"millrace/internal/job"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]request{
		"put 1 2 3 4":                      {verb: verbPut, priority: 1, delay: 2, ttr: 3, size: 4},
		"put   4294967295 0 0 0":           {verb: verbPut, priority: math.MaxUint32, size: 0},
		"reserve":                          {verb: verbReserve, size: -1},
		"reserve-with-timeout 2147483647":  {verb: verbReserveTimeout, delay: math.MaxInt32, size: -1},
		"reserve-job 18446744073709551615": {verb: verbReserveJob, id: math.MaxUint64, size: -1},
		"release 5 6 7":                    {verb: verbRelease, id: 5, priority: 6, delay: 7, size: -1},
		"bury 5 6":                         {verb: verbBury, id: 5, priority: 6, size: -1},
		"kick -2":                          {verb: verbKick, bound: math.MaxUint64 - 1, size: -1},
		"kick  +7 of them":                 {verb: verbKick, bound: 7, size: -1},
		"use a":                            {verb: verbUse, tube: []byte("a"), size: -1},
		"pause-tube  a  9":                 {verb: verbPauseTube, tube: []byte("a"), delay: 9, size: -1},
		"stats-tube " + strings.Repeat("x", 200): {
			verb: verbStatsTube,
			tube: []byte(strings.Repeat("x", 200)), size: -1,
		},
		"stats-tube " + strings.Repeat("x", 201):     {text: replyFormat, size: -1},
		"quitting":                                   {verb: verbQuit, size: -1},
		"put 1 2 3 4 5":                              {text: replyFormat, size: -1},
		"use a\x00":                                  {text: replyFormat, size: -1},
		"nope\x00":                                   {text: replyFormat, size: -1},
		"peek-jobs":                                  {text: replyUnknown, size: -1},
		"kick 18446744073709551616":                  {text: replyFormat, size: -1},
		"reserve-with-timeout 2147483648":            {text: replyFormat, size: -1},
		"reserve-with-timeout":                       {text: replyFormat, size: -1},
		"release 5 6 7 ":                             {text: replyFormat, size: -1},
		"put 18446744073709551617 0 0 0":             {text: replyFormat, size: -1},
		"put 0 0 0 " + strings.Repeat("0", 30) + "5": {verb: verbPut, size: 5},
	} {
		var got request
		if parse([]byte(line), &got); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

// Every command of the protocol has a word and a name.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for v := verbPut; int(v) < verbCount; v++ {
		found := false
		for _, w := range words {
			found = found || w.verb == v && strings.TrimSuffix(w.text, " ") == verbNames[v]
		}
		if !found {
			t.Errorf("%d %q has no word", v, verbNames[v])
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, j := range []job.Job{
		{ID: 5, QueueNum: 1, Flags: job.FlagNumbered},
		{ID: 5, QueueNum: 1},
		{ID: idMax - 1, QueueNum: queueMax - 1},
		{ID: idMax, QueueNum: 1},
		{ID: 7, QueueNum: queueMax},
	} {
		ref := refOf("ns", shownID(&j))
		placed := !j.Flags.Has(job.FlagNumbered) && j.ID < idMax && j.QueueNum < queueMax
		if ref.ID != j.ID || ref.Namespace != "ns" || placed != (ref.Kind == job.RefPlace) || placed &&
			ref.QueueNum != j.QueueNum {
			t.Errorf("%+v: %+v", j, ref)
		}
	}
}

func TestRefusalCoversEveryKind(t *testing.T) {
	t.Parallel()
	for k := job.Invalid; k <= job.Lapsing; k++ {
		if text := refusal(k); !strings.HasSuffix(text, crlf) || strings.ToUpper(text) != text {
			t.Errorf("kind %d has the text %q", k, text)
		}
	}
	if refusal(job.Lapsing+1) != replyInternal {
		t.Error("an unknown kind has no text")
	}
}
