package testkit_test

import (
	"encoding/json"
	"testing"

	"millrace/internal/testkit"
)

// TestSchemaCheck makes sure that the validator can fail.
func TestSchemaCheck(t *testing.T) {
	t.Parallel()
	d := testkit.LoadOpenAPI(t, []byte(`{"openapi":"3.1.0","components":{"schemas":{
		"Size":{"type":"object","required":["name","size"],"additionalProperties":false,"properties":{
			"name":{"type":"string","pattern":"^[a-z]+$"},"size":{"$ref":"#/components/schemas/Count"},
			"kind":{"enum":["a","b"]},"more":{"type":["array","null"],"items":{"type":"boolean"},"minItems":1,"maxItems":2},
			"one":{"oneOf":[{"const":1},{"type":"string"}]},"any":{"type":"object","additionalProperties":{"type":"integer"}}}},
		"Count":{"type":"integer","minimum":0,"maximum":9}}}}`))
	check := func(text string) string {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return d.Check(d.Components.Schemas["Size"], value)
	}
	for _, good := range []string{
		`{"name":"n","size":1}`, `{"name":"n","size":9,"kind":"b","more":[true,false],"one":1,"any":{"x":1}}`,
		`{"name":"n","size":0,"more":null,"one":"x"}`,
	} {
		if problem := check(good); problem != "" {
			t.Errorf("%s: %s", good, problem)
		}
	}
	for _, bad := range []string{
		`[]`, `{"name":"n"}`, `{"name":"n","size":-1}`, `{"name":"n","size":10}`, `{"name":"n","size":1.5}`,
		`{"name":"n","size":"1"}`,
		`{"name":null,"size":1}`, `{"name":"N","size":1}`, `{"name":"n","size":1,"other":1}`,
		`{"name":"n","size":1,"kind":"c"}`,
		`{"name":"n","size":1,"more":[]}`, `{"name":"n","size":1,"more":[1]}`,
		`{"name":"n","size":1,"more":[true,true,true]}`,
		`{"name":"n","size":1,"one":2}`, `{"name":"n","size":1,"any":{"x":"y"}}`,
	} {
		if check(bad) == "" {
			t.Errorf("%s passes", bad)
		}
	}
	for _, s := range []testkit.Schema{{"unheard": 1}, {"$ref": "#/components/schemas/None"}} {
		if d.Check(s, "x") == "" {
			t.Errorf("%v passes", s)
		}
	}
}
