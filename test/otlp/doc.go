// Package otlp runs a real OpenTelemetry collector and looks at the spans that the real binary sends to it. It has no
// code of its own and nothing imports it.
package otlp
