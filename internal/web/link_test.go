package web

import "testing"

// Whoever logs in goes on to a page of this site, whatever the link says that brought him.
func TestLocalPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/":                     "/",
		"/queues":               "/queues",
		"/jobs?queue=a&state=x": "/jobs?queue=a&state=x",
		"/queues/a%2Fb":         "/queues/a%2Fb",
		"":                      "/",
		"queues":                "/",
		"https://evil.example/": "/",
		"javascript:alert(1)":   "/",
		"//evil.example":        "/",
		"////evil.example":      "/", // a browser takes the path that is left for the name of a host
		"/\\evil.example":       "/",
		"/%5Cevil.example":      "/",
		"//user@/x":             "/",
		"/%zz":                  "/",
	} {
		if got := localPath(text); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
}
