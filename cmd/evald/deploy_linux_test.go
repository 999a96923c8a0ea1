package main

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/evald/evald/engine/game/gametest"
)

// The commands of all manifests start as their users, on files with the owners and modes that a
// kubelet, Docker or systemd gives them. Each runs in a root folder of its own, which belongs to
// root, so that it can write only where the manifest lets it.

// secrets are the files of the secrets and ConfigMaps that the manifests tell users to make.
var secrets = map[string]map[string]string{
	"evald-tokens":  {"tokens": "inference,metadata TOKEN\n"},
	"evald-cluster": {"password": "PASSWORD", "join": ""}, // the URL is that of the learner
}

func TestManifestsStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs as other users")
	}
	var image []string
	entries := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindAllSubmatch(getFile(t, "deploy/Dockerfile"), -1)
	gametest.OK(t, json.Unmarshal(entries[len(entries)-1][1], &image)) // of the image without --target
	ran := 0
	for _, overlay := range overlays {
		for _, d := range manifests(t, overlay) {
			pod := d.Spec.Template.Spec
			for _, claim := range d.Spec.VolumeClaimTemplates {
				pod.Volumes = append(pod.Volumes, podVolume{Name: claim.Metadata.Name})
			}
			for _, c := range pod.Containers {
				ran++
				if slices.Contains(c.Command, "torch") {
					continue // see TestLearnImage
				}
				if pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.RunAsGroup == 0 {
					t.Errorf("%s: %s runs as root", overlay, c.Name)
				}
				r := newContainer(t, pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup)
				if g := pod.SecurityContext.FSGroup; g != nil {
					r.groups = append(r.groups, uint32(*g))
				}
				for _, m := range c.VolumeMounts {
					r.mount(m.MountPath, volumeNamed(t, pod.Volumes, m.Name))
				}
				if overlay == "parts" {
					r.file("/data/positions.txt", strings.Repeat("44\n", 100), 0, int(pod.SecurityContext.RunAsGroup), 0o640)
				}
				for _, e := range c.Env {
					if ref := e.ValueFrom.SecretKeyRef; ref.Name != "" {
						e.Value = secrets[ref.Name][ref.Key]
					}
					if e.Value == "gpu" { // without one it would not start
						e.Value = "cpu"
					}
					r.env = append(r.env, e.Name+"="+e.Value)
				}
				args := append(append([]string{}, image...), c.Args...)
				if len(c.Command) > 0 {
					args = append(append([]string{}, c.Command...), c.Args...)
				}
				r.memory = limitOf(t, c)
				r.starts(overlay+", "+d.Metadata.Name+", "+c.Name, args)
			}
		}
	}
	if ran != 7 {
		t.Errorf("%d containers", ran)
	}
	r := newContainer(t, 65532, 65532) // docker run
	r.folder("/models", 65532, 65532, 0o755)
	r.env = append(r.env, "EVALD_MODELS=/models")
	r.starts("Dockerfile", image)

	var served [2]manifest // a runtime of KServe, and what it serves
	for i, o := range objects(t, getFile(t, "deploy/kserve.yaml")) {
		gametest.OK(t, yaml.Unmarshal(gametest.Must(yaml.Marshal(o))(t), &served[i]))
	}
	kserved := served[0].Spec.Containers[0]
	r = newContainer(t, kserved.SecurityContext.RunAsUser, kserved.SecurityContext.RunAsGroup)
	r.memory = limitOf(t, kserved)
	r.folder("/mnt/models", 1000, 1000, 0o777) // as the user of KServe's storage initializer writes
	r.file("/mnt/models/network.safetensors", string(getFile(t, shippedModel)), 1000, 1000, 0o644)
	r.starts("kserve.yaml", append(image, strings.Split(strings.ReplaceAll(strings.Join(kserved.Args, " "), "{{.Name}}", served[1].Metadata.Name), " ")...))

	unit := string(getFile(t, "deploy/evald.service"))
	for name, unit := range map[string]string{"evald.service": unit, "evald.service with tokens": regexp.MustCompile(`(?m)^#(LoadCredential|Environment)=`).ReplaceAllString(unit, "$1=")} {
		r := newContainer(t, 61234, 61234) // DynamicUser
		for setting, parent := range map[string]string{"StateDirectory": "/var/lib/", "CacheDirectory": "/var/cache/"} {
			folder := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindStringSubmatch(unit)[1]
			r.folder(parent+folder, 61234, 61234, 0o755)
		}
		if credential := regexp.MustCompile(`(?m)^LoadCredential=(\w+):`).FindStringSubmatch(unit); credential != nil {
			r.folder("/run/credentials/evald.service", 61234, 61234, 0o500)
			r.file("/run/credentials/evald.service/"+credential[1], secrets["evald-tokens"]["tokens"], 61234, 61234, 0o400)
		}
		for _, line := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(unit, -1) {
			r.env = append(r.env, strings.Fields(strings.ReplaceAll(line[1], "%d", "/run/credentials/evald.service"))...)
		}
		r.env = append(r.env, "EVALD_HTTP=127.0.0.1:0", "EVALD_GRPC=127.0.0.1:0", "EVALD_METRICS=127.0.0.1:0") // as serve.env could
		r.starts(name, strings.Fields(regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)[1]))
	}
}

// The learner of the image with PyTorch trains as that image's user, who has no name in the system and may write to its volumes alone. The Python
// is that of make soak, which has the packages that the image installs.
func TestLearnImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs as other users")
	}
	python := gametest.Framework(t, "torch")
	pins := regexp.MustCompile(`(?m)^([\w-]+)==(\S+)`).FindAllStringSubmatch(string(getFile(t, "../../.ci/learn.txt")), -1)
	if len(pins) < 10 {
		t.Fatalf("the image installs %q", pins)
	}
	versions := exec.Command(python, "-c", "import importlib.metadata, sys; [print(n, importlib.metadata.version(n)) for n in sys.argv[1:]]")
	want := ""
	for _, pin := range pins {
		versions.Args = append(versions.Args, pin[1])
		want += pin[1] + " " + pin[2] + "\n"
	}
	if got, err := versions.CombinedOutput(); err != nil || string(got) != want {
		t.Skipf("%s has other packages than the image: %v\n%s", python, err, cmp.Diff(want, string(got)))
	}
	image := string(getFile(t, "deploy/Dockerfile"))
	if !strings.Contains(image, "AS learn\n") || !strings.Contains(image, "COPY .ci/learn.txt /learn.txt\nRUN pip install") || !strings.Contains(image, "\nUSER 65532:65532\n") {
		t.Error("the Dockerfile does not install what this test tries")
	}
	var command []string
	for _, d := range manifests(t, "cluster-gpu") {
		if d.Metadata.Name == "evald-learner" && d.Kind == "StatefulSet" {
			command = d.Spec.Template.Spec.Containers[0].Command
		}
	}
	if len(command) == 0 {
		t.Fatal("there is no learner")
	}
	dir := gametest.Must(os.MkdirTemp("", "learn"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	gametest.OK(t, os.Chmod(dir, 0o755))
	root := &container{t: t, dir: dir}
	root.folder("/run/evald", 65532, 65532, 0o700)
	root.folder("/tmp", 65532, 65532, 0o700)
	root.file("/evald", string(getFile(t, os.Args[0])), 0, 0, 0o755)
	args := []string{root.dir + "/evald"}
	for _, arg := range command[1:] {
		args = append(args, strings.NewReplacer("/run/evald", root.dir+"/run/evald", "1000", "1", ":4222", "127.0.0.1:0", ":8002", "127.0.0.1:0").Replace(arg))
	}
	args = slices.DeleteFunc(args, func(arg string) bool {
		return arg == "--cluster" || arg == "--listen" || arg == "127.0.0.1:0" || arg == "--metrics"
	})
	args = append(args, "--rules", "4x4x3", "--first-games", "60", "--games", "40", "--visits", "8", "--gate-games", "20", "--positions", "20", "--network", "1x8", "--threads", "2")
	p := &exec.Cmd{
		Path: args[0], Args: args, Dir: root.dir + "/tmp",
		Env:         []string{asProgram + "=1", "EVALD_PYTHON=" + python, "HOME=" + root.dir + "/tmp", "USER=evald", "PYTHONDONTWRITEBYTECODE=1"},
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, Pdeathsig: syscall.SIGKILL},
	}
	out, err := p.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || strings.Contains(string(out), "ermission denied") && strings.Contains(string(out), python) {
		t.Skipf("the user of the image may not start %s: %v %s", python, err, out)
	}
	if _, missing := os.Stat(root.dir + "/run/evald/run/best.safetensors"); err != nil || missing != nil {
		t.Errorf("%v: %v, %v\n%s", args, err, missing, out)
	}
}

func volumeNamed(t *testing.T, all []podVolume, name string) podVolume {
	t.Helper()
	for _, v := range all {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("there is no volume %s", name)
	return podVolume{}
}

// container is the root folder of a container, with the libraries that this program needs.
type container struct {
	t        *testing.T
	dir      string
	uid, gid uint32
	groups   []uint32 // besides gid
	env      []string
	memory   memory // 0: no limit
}

// limitOf returns the memory that a container may use.
func limitOf(t *testing.T, c podContainer) (m memory) {
	t.Helper()
	gametest.OK(t, m.UnmarshalText([]byte(c.Resources.Limits["memory"]+"B")))
	return m
}

func newContainer(t *testing.T, uid, gid uint32) *container {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(os.Args[0]), "root")
	gametest.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	gametest.OK(t, os.Chmod(dir, 0o755))
	r := &container{t: t, dir: dir, uid: uid, gid: gid, env: []string{"HOME=/", asProgram + "=1"}}
	for path := range libraries(t) {
		r.folder(filepath.Dir(path), 0, 0, 0o755)
		r.file(path, string(getFile(t, path)), 0, 0, 0o755)
	}
	return r
}

// libraries returns the files that the loader needs for this program.
func libraries(t *testing.T) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m) (/\S+\.so[.\d]*)$`).FindAllSubmatch(getFile(t, "/proc/self/maps"), -1) {
		paths[string(m[1])] = true
	}
	program := gametest.Must(elf.Open(os.Args[0]))(t)
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			paths[strings.TrimRight(string(gametest.Must(io.ReadAll(p.Open()))(t)), "\x00")] = true
		}
	}
	return paths
}

// folder makes a folder with its owner and mode.
func (r *container) folder(path string, uid, gid int, mode fs.FileMode) {
	r.t.Helper()
	gametest.OK(r.t, os.MkdirAll(r.dir+path, 0o755))
	gametest.OK(r.t, os.Chown(r.dir+path, uid, gid))
	gametest.OK(r.t, os.Chmod(r.dir+path, mode))
}

func (r *container) file(path, text string, uid, gid int, mode fs.FileMode) {
	r.t.Helper()
	gametest.OK(r.t, os.WriteFile(r.dir+path, []byte(text), 0o600))
	gametest.OK(r.t, os.Chown(r.dir+path, uid, gid))
	gametest.OK(r.t, os.Chmod(r.dir+path, mode))
}

// mount makes a volume as a kubelet does. A volume belongs to root; fsGroup makes it one of that
// group, which may read it and, unless its files are a secret's or a ConfigMap's, write it.
func (r *container) mount(at string, v podVolume) {
	r.t.Helper()
	gid, shared := 0, len(r.groups) > 0
	if shared {
		gid = int(r.groups[0])
	}
	name, mode := "", (*uint32)(nil)
	switch {
	case v.Secret != nil:
		name, mode = v.Secret.SecretName, v.Secret.DefaultMode
	case v.ConfigMap != nil:
		name, mode = v.ConfigMap.Name, v.ConfigMap.DefaultMode
	default:
		permissions := fs.FileMode(0o755) // of a new file system
		if v.EmptyDir != nil {
			permissions = 0o777
		}
		if shared {
			permissions |= 0o770 | fs.ModeSetgid
		}
		r.folder(at, 0, gid, permissions)
		return
	}
	files, ok := secrets[name]
	if !ok {
		r.t.Fatalf("the test does not know the files of %s", name)
	}
	permissions, folder := fs.FileMode(0o644), fs.FileMode(0o755)
	if mode != nil {
		permissions = fs.FileMode(*mode)
	}
	if shared {
		permissions, folder = permissions|0o440, folder|0o550|fs.ModeSetgid
	}
	r.folder(at, 0, gid, folder)
	r.folder(at+"/..2026", 0, gid, folder)
	gametest.OK(r.t, os.Symlink("..2026", r.dir+at+"/..data"))
	for file, text := range files {
		r.file(at+"/..2026/"+file, text, 0, gid, permissions)
		gametest.OK(r.t, os.Symlink("..data/"+file, r.dir+at+"/"+file))
	}
}

// starts runs a command in the root folder until the test ends, and waits until it does its work.
// Control groups belong to the machine's own services. So the limit of memory is here one on the
// memory that the process may write to (RLIMIT_DATA), and the service is told what it would read from its group.
func (r *container) starts(name string, args []string) {
	t := r.t
	t.Helper()
	if r.memory > 0 && args[1] == "serve" {
		r.env = append(r.env, "EVALD_MEMORY="+(r.memory/4*3).String())
	}
	r.folder(filepath.Dir(args[0]), 0, 0, 0o755)
	gametest.OK(t, os.Link(os.Args[0], r.dir+args[0]))
	for i := range args { // so that the tests of this machine share no port
		args[i] = expanded(args[i])
		if regexp.MustCompile(`^:\d+$`).MatchString(args[i]) {
			args[i] = "127.0.0.1:0"
		}
	}
	log, began := new(syncBuffer), time.Now()
	p := &exec.Cmd{
		Path: args[0], Args: args, Env: r.env, Dir: "/", Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Chroot: r.dir, Credential: &syscall.Credential{Uid: r.uid, Gid: r.gid, Groups: r.groups}, Pdeathsig: syscall.SIGKILL},
	}
	var own syscall.Rlimit
	gametest.OK(t, syscall.Getrlimit(syscall.RLIMIT_DATA, &own))
	if r.memory > 0 { // the process inherits it
		gametest.OK(t, syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: uint64(r.memory), Max: own.Max}))
	}
	err := p.Start()
	gametest.OK(t, syscall.Setrlimit(syscall.RLIMIT_DATA, &own))
	if errors.Is(err, fs.ErrPermission) && os.Getenv("EVALD_REQUIRE_TOOLS") != "1" {
		t.Skip("root may not start programs in other root folders: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = p.Process.Kill(); <-ended })
	go func() { _ = p.Wait(); close(ended) }()
	says := fmt.Sprintf("%s: %v as %d:%d with the groups %v", name, args, r.uid, r.gid, r.groups)
	done := false
	eventually(t, log, says, func() bool {
		select {
		case <-ended:
			if done = args[1] == "eval" && p.ProcessState.Success() && r.works(args[1], log.String()); done {
				return true
			}
			t.Fatalf("%s: ended with %v:\n%s", says, p.ProcessState, log)
		default:
		}
		done = args[1] != "eval" && r.works(args[1], log.String())
		return done
	})
	t.Log(time.Since(began).Round(time.Millisecond), says)
}

// works reports whether a command of evald with this log does its work.
func (r *container) works(command, log string) bool {
	r.t.Helper()
	switch command {
	case "serve":
		m := regexp.MustCompile(`"?\bhttp"?[=:]"?(127\.0\.0\.1:\d+)`).FindStringSubmatch(log)
		if m == nil {
			return false
		}
		reply, err := http.Get("http://" + m[1] + "/v2/health/ready")
		if err != nil {
			return false
		}
		reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	case "learn":
		m := regexp.MustCompile(`workers join by the URL in (\S+): `).FindStringSubmatch(log)
		if m == nil {
			return false
		}
		secrets["evald-cluster"]["join"] = strings.TrimSpace(string(getFile(r.t, r.dir+m[1])))
		return true
	case "eval": // has written its part of the 64
		_, err := os.Stat(r.dir + "/data/answers/part-00-of-64.jsonl")
		return err == nil
	case "selfplay": // has written the learner's network to its spool
		written := false
		_ = filepath.WalkDir(r.dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			info, err := d.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Uid == r.uid {
				written = true
			}
			return nil
		})
		return written
	}
	r.t.Fatalf("the test does not know how to see that evald %s has started", command)
	return false
}
