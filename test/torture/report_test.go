package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/test/harness"
)

// writeReport logs the figures of a suite and, with -report, puts them as a table
// between the marks that the document has for it.
func writeReport(t *testing.T, name string, rows [][2]string) {
	t.Helper()
	version, err := harness.Version(t.Context(), program.Bin)
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows,
		[2]string{"Seed", fmt.Sprint(seed)},
		[2]string{"Version", version},
		[2]string{"Machine", harness.Machine()},
		[2]string{"Day", time.Now().UTC().Format(time.DateOnly)})
	var b strings.Builder
	b.WriteString("| | |\n| --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r[0], r[1])
	}
	t.Logf("%s:\n%s", name, &b)
	if *reportPath == "" {
		return
	}
	if err := harness.Publish(*reportPath, name, b.String()); err != nil {
		t.Fatal(err)
	}
}
