package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/engine/game/gametest"
)

// overlays are what an operator applies, in deploy/overlays.
var overlays = []string{"cpu", "gpu", "cluster", "cluster-gpu", "parts"}

// manifest is the part of an object of Kubernetes that says which programs run.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template             struct{ Spec podSpec }
		Containers           []podContainer                             // of KServe's runtimes
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

// podSpec is the part of a pod's template that decides who runs what, and on which files.
type podSpec struct {
	SecurityContext struct {
		RunAsUser  uint32 `yaml:"runAsUser"`
		RunAsGroup uint32 `yaml:"runAsGroup"`
		FSGroup    *int   `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Containers []podContainer
	Volumes    []podVolume
}

type podContainer struct {
	Name          string
	Command, Args []string
	Env           []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		RunAsUser  uint32 `yaml:"runAsUser"`
		RunAsGroup uint32 `yaml:"runAsGroup"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// podVolume is a volume of a pod; one of a claim has a name alone.
type podVolume struct {
	Name   string
	Secret *struct {
		SecretName  string  `yaml:"secretName"`
		DefaultMode *uint32 `yaml:"defaultMode"`
	}
	ConfigMap *struct {
		Name        string
		DefaultMode *uint32 `yaml:"defaultMode"`
	} `yaml:"configMap"`
	EmptyDir *struct{} `yaml:"emptyDir"`
}

// manifests returns the objects of an overlay.
func manifests(t *testing.T, overlay string) (all []manifest) {
	t.Helper()
	text := gametest.Must(yaml.Marshal(kustomize(t, filepath.Join("deploy/overlays", overlay))))(t)
	gametest.OK(t, yaml.Unmarshal(text, &all))
	return all
}

// expanded is an argument as the kubelet gives it to the first pod of an indexed Job.
func expanded(arg string) string { return strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", "0") }

type object = map[string]any

// kustomize builds a folder as Kustomize does, as far as the overlays need it. Kustomize itself
// takes longer to compile than these tests run; make soak compares with it.
func kustomize(t *testing.T, dir string) (all []object) {
	t.Helper()
	var k struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
		Components []struct{} // none without a change
		Patches    []struct{ Path string }
	}
	decoder := yaml.NewDecoder(bytes.NewReader(getFile(t, filepath.Join(dir, "kustomization.yaml"))))
	decoder.KnownFields(true)
	gametest.OK(t, decoder.Decode(&k))
	for _, name := range k.Resources {
		path := filepath.Join(dir, name)
		if gametest.Must(os.Stat(path))(t).IsDir() {
			all = append(all, kustomize(t, path)...)
		} else {
			all = append(all, objects(t, getFile(t, path))...)
		}
	}
	for _, p := range k.Patches {
		for _, patch := range objects(t, getFile(t, filepath.Join(dir, p.Path))) {
			i := slices.IndexFunc(all, func(o object) bool { return objectName(o) == objectName(patch) })
			if i < 0 {
				t.Fatalf("%s/%s: there is no %s", dir, p.Path, objectName(patch))
			}
			all[i] = merge(all[i], patch).(object)
		}
	}
	return all
}

// objects reads a file of YAML documents.
func objects(t *testing.T, text []byte) (all []object) {
	t.Helper()
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		if err := documents.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// objectName returns an object's kind and name, such as Service/evald.
func objectName(o object) string {
	metadata, _ := o["metadata"].(object)
	return o["kind"].(string) + "/" + metadata["name"].(string)
}

// merge returns a value with a patch: maps are merged, lists by the names of their elements, and
// all else is replaced.
func merge(value, patch any) any {
	switch patch := patch.(type) {
	case object:
		old, _ := value.(object)
		merged := object{}
		for k, v := range old {
			merged[k] = v
		}
		for k, v := range patch {
			merged[k] = merge(merged[k], v)
		}
		return merged
	case []any:
		old, _ := value.([]any)
		merged := slices.Clone(old)
		for _, element := range patch {
			e, ok := element.(object)
			if !ok {
				return patch
			}
			if i := slices.IndexFunc(merged, func(o any) bool { return o.(object)["name"] == e["name"] }); i >= 0 {
				merged[i] = merge(merged[i], e)
			} else {
				merged = append(merged, e)
			}
		}
		return merged
	}
	return patch
}

// evald knows the commands, flags and variables of the manifests.
func TestManifests(t *testing.T) {
	ran := 0
	for _, overlay := range overlays {
		for _, m := range manifests(t, overlay) {
			for _, c := range m.Spec.Template.Spec.Containers {
				t.Run(overlay+" "+c.Name, func(t *testing.T) {
					args := append([]string{"/evald", "serve"}, c.Args...) // as the Dockerfile has it
					if len(c.Command) > 0 {
						args = c.Command
					}
					for i := range args {
						args[i] = expanded(args[i])
					}
					env := map[string]string{}
					for _, v := range c.Env {
						env[v.Name] = v.Value
						if v.ValueFrom.SecretKeyRef.Name != "" {
							env[v.Name] = "x"
						}
						t.Setenv(v.Name, env[v.Name])
					}
					var parsed cli
					ran++
					if _, err := newParser(&parsed, streams{}, nil).Parse(args[1:]); err != nil {
						t.Errorf("%v: %v", args, err)
					}
					if args[1] == "serve" && (env["EVALD_BACKEND"] != overlay || (c.Resources.Limits["nvidia.com/gpu"] == "1") != (overlay == "gpu")) {
						t.Errorf("backend %s with the limits %v", env["EVALD_BACKEND"], c.Resources.Limits)
					}
				})
			}
		}
	}
	if ran != 7 {
		t.Errorf("%d containers, want 7", ran)
	}
}

// The overlays are what Kustomize makes of them, and have no field that Kubernetes does not know,
// also with all that they offer. To compile Kustomize and the types of Kubernetes takes a minute, so
// this runs in make soak.
func TestManifestTypes(t *testing.T) {
	if !gametest.Soak() {
		t.Skip("EVALD_SOAK is not set")
	}
	deploy := t.TempDir()
	gametest.OK(t, os.CopyFS(deploy, os.DirFS("deploy")))
	build := func(dir string) []object {
		program := exec.Command("go", "run", "./manifests", dir)
		program.Dir, program.Env = "../../.ci/tools", append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
		program.Stderr = new(bytes.Buffer)
		out, err := program.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, program.Stderr)
		}
		return objects(t, out)
	}
	byName := func(all []object) map[string]object {
		named := map[string]object{}
		for _, o := range all {
			named[objectName(o)] = o
		}
		return named
	}
	for _, overlay := range overlays {
		dir := filepath.Join(deploy, "overlays", overlay)
		if diff := cmp.Diff(byName(build(dir)), byName(kustomize(t, dir))); diff != "" {
			t.Errorf("%s: Kustomize has -, the test +:\n%s", overlay, diff)
		}
		file := filepath.Join(dir, "kustomization.yaml")
		text := getFile(t, file)
		offered := regexp.MustCompile(`(?m)^  # - `).ReplaceAll(text, []byte("  - "))
		if bytes.Equal(text, offered) != (strings.HasPrefix(overlay, "cluster") || overlay == "parts") {
			t.Errorf("%s offers no components", overlay)
		}
		putFile(t, file, offered)
		build(dir)
	}
}
