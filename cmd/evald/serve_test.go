package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/nn/net"
)

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startServe runs evald serve on free ports. stop ends it as an interrupt would and returns its status.
func startServe(t *testing.T, args ...string) (address map[string]string, log *syncBuffer, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log = &syncBuffer{}
	status := make(chan int, 1)
	args = append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0"}, args...)
	go func() { status <- run(ctx, args, streams{strings.NewReader(""), io.Discard, log}) }()
	stop = sync.OnceValue(func() int { cancel(); return <-status })
	t.Cleanup(func() { stop() })
	return addresses(t, log), log, stop
}

// addresses waits for the ports in the log of a starting service.
func addresses(t *testing.T, log *syncBuffer) map[string]string {
	t.Helper()
	address := map[string]string{}
	for end := time.Now().Add(20 * time.Second); len(address) < 3; time.Sleep(5 * time.Millisecond) {
		for _, m := range regexp.MustCompile(`"?\b(http|grpc|metrics)"?[=:]"?(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(log.String(), -1) {
			address[m[1]] = m[2]
		}
		if time.Now().After(end) {
			t.Fatalf("the service does not start:\n%s", log)
		}
	}
	return address
}

// NVIDIA's client gets the same answers over gRPC and HTTP, from every kind of input.
func TestServeTritonClient(t *testing.T) {
	python := gametest.Python(t, "tritonclient")
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(kserve.File_grpc_service_proto), protodesc.ToFileDescriptorProto(kserve.File_model_config_proto),
	}})
	gametest.OK(t, err)
	descriptors := filepath.Join(t.TempDir(), "descriptors")
	putFile(t, descriptors, raw)
	address, log, stop := startServe(t, "--backend", "bitsquares")
	byProgram(t, "serve_client.txt", python, "testdata/serve_client.py", address["http"], address["grpc"], descriptors)
	if status := stop(); status != exitOK || !strings.Contains(log.String(), "all requests are answered") {
		t.Errorf("status %d, log:\n%s", status, log)
	}
}

// KServe's client gets answers over REST and gRPC, and its data models accept the bodies. Its types
// have all fields of the manifests.
func TestServeKServeClient(t *testing.T) {
	python := os.Getenv("EVALD_KSERVE_PYTHON")
	if _, err := os.Stat(python); err != nil {
		t.Skip("EVALD_KSERVE_PYTHON names no Python with the packages of .ci/kserve.txt; make soak installs one")
	}
	address, _, _ := startServe(t, "--backend", "bitsquares")
	byProgram(t, "serve_kserve.txt", python, "testdata/serve_kserve.py", address["http"], address["grpc"])
	out, err := exec.Command(python, "testdata/kserve_manifests.py", "deploy/kserve.yaml").CombinedOutput()
	if want := "ServingRuntime evald\nInferenceService connectx\n"; err != nil || string(out) != want {
		t.Errorf("kserve.yaml: %v\n%s", err, out)
	}
}

// perf_analyzer, which older packages of tritonclient contain, measures the service over both transports.
func TestServePerfAnalyzer(t *testing.T) {
	program := os.Getenv("EVALD_PERF_ANALYZER")
	gametest.Need(t, program != "", "EVALD_PERF_ANALYZER names no perf_analyzer (see .ci/perf_analyzer.txt)")
	dir := t.TempDir()
	// It is linked with libraries that it does not use here.
	for library, script := range map[string]string{"libb64.so.0d": "", "libcudart.so.12": "libcudart.so.12 { global: *; };"} {
		version := filepath.Join(dir, library+".map")
		putFile(t, version, script)
		args := []string{"-shared", "-o", filepath.Join(dir, library), "testdata/perf_stub.c"}
		if script != "" {
			args = append(args, "-Wl,--version-script="+version)
		}
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	address, _, _ := startServe(t, "--backend", "bitsquares")
	transports := []string{"grpc", "http"}
	for i, c := range []struct{ input, data string }{
		{"bitboards", `{"data":[{"bitboards":[541065216,819986432]}]}`},
		{"planes", emptyPlanes()},
		{"moves", `{"data":[{"moves":["44554"]}]}`},
	} {
		file := filepath.Join(dir, c.input+".json")
		putFile(t, file, c.data)
		for k, transport := range transports {
			if !gametest.Soak() && k != i%2 { // each takes seconds of both processors
				continue
			}
			t.Run(c.input+" over "+transport, func(t *testing.T) {
				t.Parallel()
				perfAnalyzer(t, program, dir, transport, address[transport], file)
			})
		}
	}
}

func perfAnalyzer(t *testing.T, program, libraries, transport, address, data string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-m", "bitsquares", "-i", transport, "-u", address, "-b", "16", "--input-data", data,
		"--measurement-mode", "count_windows", "--measurement-request-count", "50",
		"-s", "1000000000", "-r", "3") // on a busy machine, windows of 50 requests may differ by any percentage
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("infer/sec")) || !regexp.MustCompile(`Inference count: [1-9]`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// emptyPlanes is the empty board in perf_analyzer's form of planes.
func emptyPlanes() string {
	planes := net.NewPlanes(game.MustBoard(game.Connect4), make([]game.Position, 1)).Float32s()
	var values []string
	for _, x := range planes {
		values = append(values, fmt.Sprintf("%.1f", x))
	}
	return `{"data":[{"planes":[` + strings.Join(values, ",") + `]}]}`
}

// Errors about wrong flags of evald serve name the flag, in the log.
func TestServeWrongUse(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	putFile(t, tokens, "nobody x\n")
	for args, says := range map[string]string{
		"--rules 99x99x4":                               "--rules",
		"--backend bitsquares --model x":                "uses no model",
		"--model seeded-2x16 --model seeded-2x16@1":     "two models are called seeded-2x16",
		"--tls-cert " + tokens + " --tls-key " + tokens: "--tls-cert",
		"--memory 256MiB --model default-fast":          "--memory 256MiB: must be at least 310MiB with the models default-fast, which take 77MiB of it, and --body 8388608",
		"--tokens " + tokens:                            `line 1: group "nobody"`,
		"--tokens " + tokens + "x":                      "no such file",
		"--pprof :6060 --backend uniform":               "--pprof :6060: must be an address of this machine's own",
		"--http 256.0.0.1:1 --backend uniform":          "--http 256.0.0.1:1",
	} {
		status, out, stderr := evald(t, "", append([]string{"serve", "--http", "", "--grpc", "", "--metrics", "", "--log", "json"}, strings.Fields(args)...)...)
		wrong := exitBadInput
		if says == "--rules" || says == "uses no model" || strings.HasPrefix(says, "--pprof") || strings.HasPrefix(says, "--memory") || strings.HasPrefix(says, "two models") {
			wrong = exitUsage
		}
		records := logRecords(t, stderr)
		last := records[len(records)-1]
		if why, _ := last["error"].(string); status != wrong || out != "" || last["level"] != "ERROR" || !strings.Contains(why, says) {
			t.Errorf("evald serve %s: status %d, errors %q, want %q", args, status, stderr, says)
		}
	}
}

// posted returns a server's answer to a JSON body.
func posted(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	return answered(t, r, err)
}

// answered returns the whole answer.
func answered(t *testing.T, r *http.Response, err error) (status int, answer string) {
	t.Helper()
	gametest.OK(t, err)
	defer r.Body.Close()
	text := gametest.Must(io.ReadAll(r.Body))(t)
	return r.StatusCode, string(text)
}

// A model that is removed from the store while it is served continues to be served: what is loaded stays.
func TestServeRemoved(t *testing.T) {
	ownStore(t)
	must(t, "", "model", "import", shippedModel, "--name", "mine", "--rules", "7x6x4")
	address, log, stop := startServe(t, "--model", "mine", "--backend", "cpu", "--repository", "--watch", "5ms")
	post := func(call, body string) (status int, answer string) {
		return posted(t, "http://"+address["http"]+"/v2/"+call, body)
	}
	infer := func() string {
		status, answer := post("models/mine/infer", `{"inputs": [{"name": "moves", "datatype": "BYTES", "shape": [1], "data": ["44554"]}]}`)
		if status != http.StatusOK {
			t.Errorf("status %d: %s\n%s", status, answer, log)
		}
		return answer
	}
	before := infer()
	must(t, "", "model", "remove", "mine")
	if status, answer := post("repository/models/mine/load", ""); status != http.StatusBadRequest || !strings.Contains(answer, "mine") {
		t.Errorf("loaded again: status %d, %s", status, answer)
	}
	if after := infer(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	if status := stop(); status != exitOK {
		t.Errorf("status %d:\n%s", status, log)
	}
}

// If a served model's file is replaced, the new one is loaded. Names that are no model's are not opened as files.
func TestServeReload(t *testing.T) {
	file := getFile(t, "../../models/seeded-2x16.safetensors")
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	putFile(t, path, file)
	address, log, stop := startServe(t, "--model", path, "--repository", "--watch", "5ms")
	post := func(call string) string {
		status, text := posted(t, "http://"+address["http"]+"/v2/repository/models/"+call, "")
		return fmt.Sprint(status, " ", text)
	}
	for _, c := range [][2]string{
		{"seeded-2x16/load", "200"},
		{"bitsquares/load", "200"},
		{"bitsquares/unload", "200"},
		{"bitsquares/unload", "404"},
		{"mine/load", "200"},
		{"search/load", "400"},
		{"mine/unload", "400"},
		{strings.ReplaceAll(path, "/", "%2F") + "/load", "400"},
		{"..%2F..%2Fmodels%2Fseeded-2x16.safetensors/load", "400"},
	} {
		call, want := c[0], c[1]
		if got := post(call); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
	}
	get := func(path string) string {
		r, err := http.Get("http://" + address["http"] + path)
		status, text := answered(t, r, err)
		return fmt.Sprint(status, " ", text)
	}
	if page := get("/"); !strings.HasPrefix(page, "200 ") || !strings.Contains(page, "<html") {
		t.Errorf("the page: %.200s", page)
	}
	if config := get("/ui/config"); !strings.Contains(config, `"model":"mine"`) || !strings.Contains(config, `"networks":["mine"]`) {
		t.Errorf("the page's config: %s", config)
	}
	loads := func() int { return strings.Count(log.String(), `msg="model is ready" model=mine`) }
	before := loads()
	gametest.OK(t, writeWhole(path, func(w io.Writer) error { _, err := w.Write(file); return err }))
	for end := time.Now().Add(10 * time.Second); loads() == before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("the changed file is not loaded:\n%s", log)
		}
	}
	if status := stop(); status != exitOK {
		t.Errorf("status %d:\n%s", status, log)
	}
}

// A file of tokens that everybody on the machine can read is reported, with the way out.
func TestServeTokensReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	putFile(t, path, "inference s3cret\n")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o604: true, 0o644: true} {
		gametest.OK(t, os.Chmod(path, mode))
		_, log, stop := startServe(t, "--backend", "uniform", "--tokens", path)
		stop()
		if got := strings.Count(log.String(), "EVERYBODY on this machine can read the tokens: chmod 600 "+path); (got == 1) != warned || got > 1 {
			t.Errorf("mode %v: said %d times:\n%s", mode, got, log)
		}
	}
}
