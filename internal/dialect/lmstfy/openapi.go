package lmstfy

import _ "embed" // the documents below

// Where the documents of the APIs are served: both on the admin listener, that of the public API on
// the public one, too.
const (
	openapiPath      = "/openapi.json"
	openapiAdminPath = "/openapi-admin.json"
)

//go:embed openapi.json
var openapiPublic []byte

//go:embed openapi_admin.json
var openapiAdmin []byte
