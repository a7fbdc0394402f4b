// The examples of the documents, run against the server, apart from the server's own
// tests because they need the tools that the examples use.
module millrace/test/docs

go 1.26.0

require millrace v0.0.0-00010101000000-000000000000

replace millrace => ../..
