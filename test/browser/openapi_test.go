package browser

import "testing"

// TestOpenAPI has a validator of others read the documents that a server serves.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	addrs := program.Serve(t, []string{"web", "lmstfy", "admin"}).Addrs
	script(t, "openapi.test.mjs", "DOCUMENTS=http://"+addrs["web"]+"/openapi.json http://"+addrs["lmstfy"]+
		"/openapi.json http://"+addrs["admin"]+"/openapi-admin.json")
}
