// Package openapi writes the OpenAPI document of the operator API from its table of routes and from the types that the
// table names. Comments and tags of their fields are the descriptions and the bounds. It reads the source, so it runs
// when the document is made (make docs), not in the server, which has the document as a file.
//
// The tag api of a field holds words, separated by spaces:
//
//	optional      a request may leave it out, although answers always have it
//	required      a parameter that must be there
//	signed        a number that may be negative; all others are not
//	is=State      it is one of those
//	enum=a|b      it is one of these
//	minimum=1     any other word of JSON Schema; in a list or a map it is about each element, as is and enum are
//	maxItems=10   what is about the list itself
package openapi
