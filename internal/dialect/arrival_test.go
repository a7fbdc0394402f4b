package dialect

import (
	"encoding/json"
	"reflect"
	"testing"
)

// A line is read as the decoder of Go reads it, whichever members it has.
func TestReadArrival(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"id":"a b","queue":"q","state":"ready","text":{"jid":"1","args":[1.50,"<"]}}` + "\n",
		`{"id":"a\u0020\"b","queue":"","state":"dead","text":null}`,
		`{"id":"a","queue":"q","state":"ready","body":"AAE=","priority":-3,"ttr":5000000000,"run_at":7,"ttl":18446744073709551615}`,
		`{"id":"a","group":"g","other":1}`,
		`{}`,
		`{"id":7}`,
		`{"id":"a"`,
		`{"id":"a"} x`,
		`[]`,
		``,
	} {
		var want Arrival
		wrong := json.Unmarshal([]byte(line), &want) != nil
		got, err := ReadArrival([]byte(line))
		if (err != nil) != wrong || !wrong && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
}
