package deploy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/config"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/ops"
	"github.com/troupehq/troupe/testkit"
)

// stopTime is what a stop takes at most, by default.
const stopTime = 33 * time.Second

// decode reads YAML into v, in which every key is to have a field.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	var raw any
	harness.OK(t, yaml.Unmarshal([]byte(text), &raw))
	asJSON, err := json.Marshal(raw)
	harness.OK(t, err)
	strict := json.NewDecoder(bytes.NewReader(asJSON))
	strict.DisallowUnknownFields()
	if err := strict.Decode(v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// The keys of Kubernetes and KEDA that the files have.
type (
	object struct {
		APIVersion, Kind string
		Metadata         struct {
			Name   string
			Labels map[string]string
		}
		Data map[string]string
		Spec struct {
			Replicas                                          int
			Selector                                          any
			Ports                                             []port
			ScaleTargetRef                                    struct{ Name string }
			MinReplicaCount, MaxReplicaCount, PollingInterval int
			Triggers                                          []struct {
				Type     string
				Metadata map[string]string
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					TerminationGracePeriodSeconds int
					AutomountServiceAccountToken  bool
					SecurityContext               struct {
						RunAsNonRoot          bool
						RunAsUser, RunAsGroup int
						SeccompProfile        struct{ Type string }
					}
					Containers []container
					Volumes    []struct {
						Name      string
						ConfigMap struct{ Name string }
					}
				}
			}
		}
	}
	container struct {
		Name, Image                                 string
		Args                                        []string
		Env                                         []map[string]any
		Ports                                       []port
		StartupProbe, LivenessProbe, ReadinessProbe probe
		Resources                                   map[string]map[string]string
		SecurityContext                             map[string]any
		VolumeMounts                                []struct {
			Name, MountPath string
			ReadOnly        bool
		}
	}
	port struct {
		Name, TargetPort    string
		Port, ContainerPort int
	}
	probe struct {
		HTTPGet                                         struct{ Path, Port string }
		PeriodSeconds, TimeoutSeconds, FailureThreshold int
	}
)

// objects are those of a file by kind.
func objects(t *testing.T, name string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for text := range strings.SplitSeq(read(t, name), "\n---\n") {
		var o object
		decode(t, text, &o)
		all[o.APIVersion+" "+o.Kind] = o
	}
	return all
}

// served tells what a daemon that has not started answers at a path.
func served(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	d, err := actors.New(actors.Config{Redis: testkit.NewMemory(t).Client, Registry: new(troupe.Registry)})
	harness.OK(t, err)
	w := httptest.NewRecorder()
	ops.Handler(d).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// The probes ask what is served where it is served, the pod has the time that a stop takes, and it is
// run as the image's user.
func TestTheDeployment(t *testing.T) {
	all := objects(t, "kubernetes/deployment.yaml")
	deployment, service, file := all["apps/v1 Deployment"], all["v1 Service"], all["v1 ConfigMap"]
	pod := deployment.Spec.Template.Spec
	if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; grace < stopTime+5*time.Second {
		t.Errorf("the grace is %s, and a stop takes %s", grace, stopTime)
	}
	if len(pod.Containers) != 1 || len(pod.Containers[0].Ports) != 1 || len(service.Spec.Ports) != 1 {
		t.Fatalf("%d containers, expected one, with one port", len(pod.Containers))
	}
	c := pod.Containers[0]
	ask := c.Ports[0]
	if at := slices.Index(c.Args, "--ops"); at < 0 || at+1 == len(c.Args) || c.Args[at+1] != "0.0.0.0:"+strconv.Itoa(ask.ContainerPort) {
		t.Errorf("the port is %d, the arguments are %q", ask.ContainerPort, c.Args)
	}
	for path, p := range map[string]probe{"/startupz": c.StartupProbe, "/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if p.HTTPGet.Path != path || p.HTTPGet.Port != ask.Name {
			t.Errorf("%s: %+v, the port is %q", path, p, ask.Name)
		}
		if code := served(t, p.HTTPGet.Path).Code; code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Errorf("%s answers with %d", p.HTTPGet.Path, code)
		}
	}
	if p := service.Spec.Ports[0]; p.Port != ask.ContainerPort || p.TargetPort != ask.Name {
		t.Errorf("the service has %+v, the pod %+v", p, ask)
	}
	user := strconv.Itoa(pod.SecurityContext.RunAsUser) + ":" + strconv.Itoa(pod.SecurityContext.RunAsGroup)
	if want := one(t, dockerfile(t), "USER"); user != want || !pod.SecurityContext.RunAsNonRoot {
		t.Errorf("the pod is run as %s, the image as %s", user, want)
	}
	if _, err := config.Parse("troupe.yml", []byte(file.Data["troupe.yml"]), ""); err != nil {
		t.Error(err)
	}
	if mount := c.VolumeMounts[0].MountPath + "/troupe.yml"; !slices.Contains(c.Args, mount) || pod.Volumes[0].ConfigMap.Name != file.Metadata.Name {
		t.Errorf("the file is at %s, the arguments are %q", mount, c.Args)
	}
	if !strings.HasSuffix(c.Image, ":"+actors.Version) || c.Resources["limits"]["memory"] == "" || c.Resources["requests"]["cpu"] == "" {
		t.Errorf("image %s, resources %v", c.Image, c.Resources)
	}
	if labels := deployment.Spec.Template.Metadata.Labels["app"]; service.Spec.Selector.(map[string]any)["app"] != labels {
		t.Errorf("the service selects %v, the pods are %v", service.Spec.Selector, labels)
	}
}

// KEDA asks the service for a number that is served.
func TestTheScaledObject(t *testing.T) {
	scaled := objects(t, "kubernetes/scaledobject.yaml")["keda.sh/v1alpha1 ScaledObject"].Spec
	all := objects(t, "kubernetes/deployment.yaml")
	service := all["v1 Service"]
	if scaled.ScaleTargetRef.Name != all["apps/v1 Deployment"].Metadata.Name || scaled.MinReplicaCount < 1 || len(scaled.Triggers) != 1 || scaled.Triggers[0].Type != "metrics-api" {
		t.Fatalf("%+v", scaled)
	}
	trigger := scaled.Triggers[0].Metadata
	where, err := url.Parse(trigger["url"])
	if err != nil || !strings.HasPrefix(where.Host, service.Metadata.Name+".default.svc:") || where.Port() != strconv.Itoa(service.Spec.Ports[0].Port) {
		t.Errorf("KEDA asks %s, the service is %+v: %v", trigger["url"], service, err)
	}
	reply := served(t, where.Path)
	var load map[string]float64
	if err := json.Unmarshal(reply.Body.Bytes(), &load); err != nil || reply.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", reply.Code, reply.Body, err)
	}
	if _, ok := load[trigger["valueLocation"]]; !ok {
		t.Errorf("there is no %q in %v", trigger["valueLocation"], load)
	}
}

// Compose waits for a stop, and serves the file beside it, which has no faults.
func TestTheComposeFile(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image          string
			Command        []string
			Build          struct{ Context, Dockerfile string }
			Environment    map[string]string
			Volumes, Ports []string
			Depends        []string `json:"depends_on"`
			Restart        string
			ReadOnly       bool     `json:"read_only"`
			Drop           []string `json:"cap_drop"`
			Grace          string   `json:"stop_grace_period"`
		}
		Volumes map[string]any
	}
	decode(t, read(t, "docker/compose.yaml"), &compose)
	s := compose.Services["troupe"]
	if grace, err := time.ParseDuration(s.Grace); err != nil || grace < stopTime+5*time.Second {
		t.Errorf("the grace is %s, and a stop takes %s: %v", s.Grace, stopTime, err)
	}
	all := dockerfile(t)
	port, from := one(t, all, "EXPOSE"), one(t, all, "WORKDIR")
	if !slices.Equal(s.Ports, []string{"127.0.0.1:" + port + ":" + port}) || !slices.Equal(s.Volumes, []string{"./troupe.yml:" + from + "/troupe.yml:ro"}) || s.Build.Dockerfile != "deploy/docker/Dockerfile" {
		t.Errorf("%+v, the image has port %s and works in %s", s, port, from)
	}
	if cmd := words(t, one(t, all, "CMD")); !slices.Contains(cmd, "0.0.0.0:"+port) {
		t.Errorf("the image runs %q and has port %s", cmd, port)
	}
	if _, err := config.Parse("troupe.yml", []byte(read(t, "docker/troupe.yml")), ""); err != nil {
		t.Error(err)
	}
}
