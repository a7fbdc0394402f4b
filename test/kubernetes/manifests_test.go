package kubernetes

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const manifest = "../../packaging/kubernetes/cluster.yaml"

// manifests are the objects of the file.
type manifests struct {
	services map[string]*corev1.Service
	set      *appsv1.StatefulSet
	budget   *policyv1.PodDisruptionBudget
	policy   *networkingv1.NetworkPolicy
}

// parse reads the objects strictly: what their types do not have is an error.
func parse(text []byte) (*manifests, error) {
	m := &manifests{services: map[string]*corev1.Service{}}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		var err error
		switch kind.Kind {
		case "Service":
			s := &corev1.Service{}
			err = yaml.UnmarshalStrict(document, s)
			m.services[s.Name] = s
		case "StatefulSet":
			m.set = &appsv1.StatefulSet{}
			err = yaml.UnmarshalStrict(document, m.set)
		case "PodDisruptionBudget":
			m.budget = &policyv1.PodDisruptionBudget{}
			err = yaml.UnmarshalStrict(document, m.budget)
		case "NetworkPolicy":
			m.policy = &networkingv1.NetworkPolicy{}
			err = yaml.UnmarshalStrict(document, m.policy)
		default:
			err = os.ErrInvalid
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The objects are of the types that Kubernetes has, and fit each other and the image.
func TestManifests(t *testing.T) {
	m, err := parse([]byte(read(t, manifest)))
	if err != nil {
		t.Fatal(err)
	}
	if m.set == nil || m.budget == nil || m.policy == nil || len(m.services) != 2 {
		t.Fatalf("objects are missing: %+v", m)
	}
	labels := m.set.Spec.Template.Labels
	apart := m.set.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	selectors := map[string]map[string]string{
		"StatefulSet": m.set.Spec.Selector.MatchLabels, "PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels,
		"NetworkPolicy": m.policy.Spec.PodSelector.MatchLabels, "affinity": apart.LabelSelector.MatchLabels,
	}
	for name, s := range m.services {
		selectors[name] = s.Spec.Selector
	}
	for name, s := range selectors {
		if len(s) == 0 || !maps.Equal(s, labels) {
			t.Errorf("%s selects %v, and pods have %v", name, s, labels)
		}
	}
	nodes := m.services[m.set.Spec.ServiceName]
	if nodes == nil || nodes.Spec.ClusterIP != "None" || !nodes.Spec.PublishNotReadyAddresses {
		t.Errorf("nodes do not find each other by %+v", nodes)
	}
	if m.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || m.budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("nodes do not start together, or more than one may be taken away")
	}
	checkPods(t, m)
}

func checkPods(t *testing.T, m *manifests) {
	t.Helper()
	c := m.set.Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	var want []string
	for i := range *m.set.Spec.Replicas {
		name := m.set.Name + "-" + strconv.Itoa(int(i))
		want = append(want, name+"="+name+"."+m.set.Spec.ServiceName+":7421")
	}
	if got := env["MILLRACE_CLUSTER_PEERS"]; got != strings.Join(want, ",") {
		t.Errorf("cluster.peers are %s, want %s", got, strings.Join(want, ","))
	}
	// Every variable is one that the server knows.
	example := read(t, "../../docs/millrace.example.toml")
	for name := range env {
		if name != "MILLRACE_API_PASSWORD" && !strings.Contains(example, "# "+name+", ") {
			t.Errorf("there is no setting %s", name)
		}
	}
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	image := regexp.MustCompile(`MILLRACE_(\w+)_ADDR=:(\d+)`).FindAllStringSubmatch(read(t, "../../Dockerfile"), -1)
	for name, port := range ports {
		known := name == "nodes" || slices.ContainsFunc(image, func(i []string) bool {
			return strings.EqualFold(i[1], name) && i[2] == strconv.Itoa(int(port))
		})
		if !known {
			t.Errorf("the image does not serve %s at %d", name, port)
		}
	}
	for _, s := range m.services {
		for _, p := range s.Spec.Ports {
			if ports[p.Name] != p.Port {
				t.Errorf("service %s has %s at %d, and the pods at %d", s.Name, p.Name, p.Port, ports[p.Name])
			}
		}
	}
	for name, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet.Path != name || probe.HTTPGet.Port.StrVal != "web" {
			t.Errorf("the probe of %s is %+v", name, probe)
		}
	}
	if got := strings.Join(c.Lifecycle.PreStop.Exec.Command, " "); got != "/millrace cluster transfer --if-leader" {
		t.Errorf("before it is stopped a pod runs %q", got)
	}
	if !strings.Contains(read(t, "../../docs/cli.md"), "--if-leader") {
		t.Error("there is no such flag")
	}
	if m.set.Spec.VolumeClaimTemplates[0].Name != c.VolumeMounts[0].Name || c.VolumeMounts[0].MountPath != "/data" {
		t.Error("the data is not on the volume")
	}
}

// What Kubernetes does not know is found.
func TestStrict(t *testing.T) {
	text := read(t, manifest)
	for _, change := range [][2]string{
		{"podManagementPolicy", "podManagmentPolicy"},
		{"failureThreshold: 6", "failureThreshold: often"},
		{"maxUnavailable", "maxUnavailible"},
		{"kind: Service", "kind: Servise"},
		{"mountPath", "path"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Errorf("there is no %s", change[0])
		}
		if _, err := parse([]byte(changed)); err == nil {
			t.Errorf("%s is taken", change[1])
		}
	}
}
