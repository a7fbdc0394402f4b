package job

import "testing"

func TestVerbs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for v := range Verb(VerbCount) {
		if name := v.String(); name == "" || seen[name] {
			t.Errorf("verb %d is called %q", v, name)
		}
		seen[v.String()] = true
	}
	for want, c := range map[string]Command{
		"push": &Push{}, "fetch": &Fetch{}, "ack": &Ack{}, "fail": &Fail{}, "end_holder": &EndHolder{},
		"drop_value": &DropValue{},
	} {
		if got := VerbOf(c).String(); got != want {
			t.Errorf("%T is called %s", c, got)
		}
	}
}
