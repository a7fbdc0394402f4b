package docs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const whyCluster = "needs nodes on several machines; TestMembership and TestRecover of internal/server do the " +
	"same in one process"

// norun lists every block that is not run, by its document and its whole text, with
// the reason. A new one has to be added here, where a reviewer sees it.
var norun = []struct{ document, text, why string }{
	{"README.md", "make test", "it runs this test"},
	{"README.md", `make build && export PATH="$PWD/bin:$PATH"`, "the test has built it into a directory of its own"},
	{
		"docs/install.md", "docker build -t millrace .\n" +
			"docker run --read-only -p 127.0.0.1:7419:7419 -p 127.0.0.1:7420:7420 -v millrace:/data millrace",
		"needs a container engine; test/packaging looks at the Dockerfile",
	},
	{
		"docs/install.md", "make deb\napt-get install ./dist/millrace_*.deb",
		"changes the machine; test/packaging/deb builds, installs and starts the package",
	},
	{
		"docs/first-job.md", "go mod init first-job\ngo get github.com/contribsys/faktory_worker_go@v1.7.0",
		"the test takes the modules of test/clients, which are there already",
	},
	{
		"docs/first-job.md", "npm install faktory-worker@4.7.1",
		"the test takes the modules of test/clients, which are there already",
	},
	{
		"docs/hooks.md", "echo \"whsec_$(openssl rand -base64 32)\" > /etc/millrace/hook-secret\n" +
			"millrace queue hook mails --url https://example.org/dead",
		"needs a restart with the secret in between; TestHookOfFile of internal/server has a URL called",
	},
	{"docs/cluster.md", `for n in 0 1 2; do
  node=$(echo a b c | cut -d' ' -f$((n+1)))
  millrace serve --data-dir ./node-$node --cluster-node $node \
    --cluster-peers a=127.0.0.1:7421,b=127.0.0.1:7422,c=127.0.0.1:7423 \
    --web-addr 127.0.0.1:743$n --faktory-addr 127.0.0.1:741$n --masenko-addr off --workq-addr off --beanstalkd-addr off \
    --tarantool-addr off --lmstfy-addr off --lmstfy-admin-addr off &
done
sleep 2
millrace cluster status --api http://127.0.0.1:7430`, "leaves three servers behind; test/torture starts a cluster with the same settings"},
	{"docs/cluster.md", "millrace cluster join d=jobs-d.example.com:7421", whyCluster},
	{"docs/cluster.md", "millrace cluster remove a", whyCluster},
	{"docs/cluster.md", "millrace cluster remove c --yes\nmillrace cluster join c=jobs-c.example.com:7421", whyCluster},
	{"docs/cluster.md", "millrace cluster recover /var/lib/millrace/data", whyCluster},
	{
		"docs/cluster.md", "millrace cluster init --data-dir /var/lib/millrace/data --cluster-node a --cluster-peers " +
			"a=jobs-a.example.com:7421\n" +
			"millrace serve --data-dir /var/lib/millrace/data --cluster-node a --cluster-peers " +
			"a=jobs-a.example.com:7421", whyCluster,
	},
	{
		"docs/cluster.md", "millrace restore /backup/monday /var/lib/millrace/data\n" +
			"millrace cluster init --data-dir /var/lib/millrace/data --cluster-node a --cluster-peers " +
			"a=jobs-a.example.com:7421", whyCluster,
	},
	{
		"docs/runbooks/MillraceClusterClockSkew.md",
		"millrace cluster status --json | jq -c '.nodes[] | {name, clock_skew_seconds}'", whyCluster,
	},
	{"docs/runbooks/MillraceClusterLag.md", "millrace cluster status", whyCluster},
	{"docs/runbooks/MillraceClusterLeaderChanges.md", "millrace cluster status", whyCluster},
	{
		"docs/runbooks/MillraceClusterLogGrows.md",
		"millrace cluster status --json | jq -c '.nodes[] | {name, log_bytes}'", whyCluster,
	},
	{"docs/runbooks/MillraceClusterNoLeader.md", "millrace cluster status", whyCluster},
	{"docs/runbooks/MillraceClusterNodeUnreachable.md", "millrace cluster status", whyCluster},
	{"docs/runbooks/MillraceClusterSettingsDiffer.md", "millrace cluster status", whyCluster},
	{
		"docs/cluster.md", "docker build -t millrace .\n" +
			"docker compose -f packaging/compose/cluster.yaml up --detach --wait\n" +
			"docker compose -f packaging/compose/cluster.yaml exec a /millrace cluster status",
		"needs a container engine; test/packaging compares the file with the configuration",
	},
}

// TestNorun holds the list and the documents together.
func TestNorun(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	documents, err := documentsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.Clone(norun)
	for _, document := range documents {
		p, err := planFor(root, document)
		if err != nil {
			t.Errorf("%s: %v", document, err)
		}
		for _, f := range p.norun {
			i := slices.IndexFunc(missing, func(n struct{ document, text, why string }) bool {
				return n.document == document && n.text == strings.TrimSuffix(f.text, "\n")
			})
			if i < 0 {
				t.Errorf("%s:%d: a block is not run and not listed in norun_test.go with the reason:\n%s",
					document, f.line, f.text)
				continue
			}
			missing = slices.Delete(missing, i, i+1)
		}
	}
	for _, n := range missing {
		t.Errorf("norun_test.go lists a block that %s does not have:\n%s", n.document, n.text)
	}
	for _, n := range norun {
		if n.why == "" {
			t.Errorf("no reason is given for the block of %s:\n%s", n.document, n.text)
		}
	}
}
