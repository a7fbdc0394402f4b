// Package job holds the nouns and verbs of the server: the job and its policy,
// the states it passes through, the commands that change it (one struct per
// verb), what a command answers and the kinds of refusal.
//
// It knows no wire format, no storage and no clock, and it imports nothing of
// this module. Where protocols differ, the difference is a field here (Policy
// for what travels with a job, the command for what belongs to one call); no
// field is named after a protocol.
package job
