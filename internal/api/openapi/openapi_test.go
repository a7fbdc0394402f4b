package openapi

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"millrace/internal/api"
	"millrace/internal/dialect"
)

var update = flag.Bool("update", false, "write the document again")

const document = "../../httpapi/openapi.json"

// The document that the server has is the one that the table of routes and the types give.
func TestReference(t *testing.T) {
	t.Parallel()
	got, err := Generate(api.Routes, os.DirFS("../.."), []string{"dialect", "api"}, dialect.Arrival{})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(document, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if had, err := os.ReadFile(document); err != nil || !bytes.Equal(had, got) {
		t.Errorf("%s is not what the source gives: run make docs (%v)", document, err)
	}
}
