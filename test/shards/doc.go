// Package shards simulates how the load of namespaces would spread over several groups of nodes.
package shards
