package browser

import "testing"

// TestOpenAPI has a validator of others read the documents that the server has.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	script(t, "openapi.test.mjs")
}
