// Package tidy holds the house rules as tests: who may import whom, which words
// stay out of the engine, which documents must exist, what may not appear in
// any source file. It has no code of its own and nothing imports it; what it
// reports is what a reviewer would otherwise have to look for.
//
// Every rule is a function from a tree of files to a list of complaints, tried
// on this repository and, to prove that it can fail, on a small tree that
// breaks it.
package tidy
