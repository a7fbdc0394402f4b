// Package schedule says when a schedule is due next. It is pure: what it answers depends on nothing but the text, the
// zone and the time that it is given, and on the database of time zones. A library reads the text; which moments it
// means is decided here, because the rules for clocks that are changed are part of what we promise (docs/semantics.md,
// section 14).
package schedule
