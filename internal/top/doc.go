// Package top shows a running server in a terminal, as it changes: its queues, the jobs that run, wait for another
// try or are dead, and keys to look around and to pause, retry and kill. It asks the operator API and knows nothing
// else of the server. The command line calls it.
//
//	top.go     the program, and one frame for scripts
//	model.go   what is shown, and how messages change it
//	keys.go    what keys do
//	load.go    what is asked of the server
//	table.go   tables that are sorted, and cut to the screen
//	columns.go the columns of queues and jobs
//	view.go    the screen
package top
