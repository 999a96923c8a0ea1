package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// What the server says of itself is the same over both transports, and counts what it did.
func TestDescriptions(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Repository, c.Settings.Cache = true, 1<<10
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		l, err := load(m)
		l.NoGPU = true
		l.Devices = func() []Device { // one that works, and one that is lost
			return []Device{
				{Index: 0, Working: true, Rows: 70, Launches: 3, Busy: 1500 * time.Millisecond},
				{Index: 2, Lost: true, Rows: 7, Launches: 1, Faults: 4},
			}
		}
		return l, err
	}
	c.Settings.MaxDelay = 10 * time.Second // the batches are idle's, however slow the machine
	s := serve(t, c)
	for range 3 {
		s.answer(t, bitboardRequest(connect4, make([]game.Position, 5)...))
	}
	for path, want := range map[string][]string{
		"/v2":                        {`200`, `"name":"evald"`, `"model_repository"`, `"statistics"`},
		"/v2/health/live":            {`200 {"live":true}`},
		"/v2/health/ready":           {`200 {"ready":true}`},
		"/v2/models/stub/ready":      {`200 {"name":"stub","ready":true}`},
		"/v2/models/x/ready":         {`400 {"name":"x","ready":false}`},
		"/v2/models/stub":            {`{"datatype":"FP32","name":"planes","shape":[-1,5,6,7]}`, `"versions":["1"]`},
		"/v2/models/search":          {`{"datatype":"INT32","name":"visits","shape":[-1,7]}`},
		"/v2/models/stub/config":     {`"max_batch_size":4096`, `"max_queue_delay_microseconds":10000000`, `"dims":[5,6,7]`, `"response_cache":{"enable":true}`},
		"/v2/models/stub/stats":      {`"inference_count":15`, `"execution_count":1`, `"batch_size":5`, `"cache_hit":{"count":10`},
		"/v2/models/stats":           {`"name":"search"`, `"name":"stub"`},
		"/v2/models/x/stats":         {`404`},
		"/v2/models/stub/versions/1": {`200`},
		"/v2/models/stub/versions/3": {`404`},
	} {
		status, text := s.get(t, path)
		got := fmt.Sprintf("%d %s", status, text)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s, want %s", path, got, w)
			}
		}
	}
	if _, text := s.post(t, "/v2/repository/index", nil, nil); string(text) != `[{"name":"other","reason":"not loaded","state":"UNAVAILABLE","version":""},{"name":"search","reason":"","state":"READY","version":"1"},{"name":"stub","reason":"","state":"READY","version":"1"}]`+"\n" {
		t.Errorf("index: %s", text)
	}
	for path, body := range map[string]string{"/v2/repository/index": `{"ready":true,"ready":false}`, "/v2/repository/models/stub/load": `{"x":{"a":1,"a":2}}`} {
		if reply, text := s.post(t, path, nil, []byte(body)); reply.StatusCode != 400 || !strings.Contains(string(text), "is there twice") {
			t.Errorf("%s: %d %s", body, reply.StatusCode, text)
		}
	}
	if reply, text := s.post(t, "/v2/repository/models/other/load", nil, nil); reply.StatusCode != 400 || !strings.Contains(string(text), "no such file") {
		t.Errorf("load: %d %s", reply.StatusCode, text)
	}
	metrics := s.metricsText()
	for _, want := range []string{
		`nv_inference_request_success{model="stub",version="1"} 3`,
		`nv_inference_count{model="stub",version="1"} 15`,
		`nv_inference_exec_count{model="stub",version="1"} 1`,
		`nv_inference_request_failure{model="stub",reason="REJECTED",version="1"} 0`,
		`nv_inference_pending_request_count{model="stub",version="1"} 0`,
		`evald_batches_total{model="stub",reason="idle",version="1"} 1`,
		`evald_rows_total{model="stub",source="cpu",version="1"} 5`,
		`evald_rows_total{model="stub",source="cache",version="1"} 10`,
		`evald_batch_rows_bucket{model="stub",version="1",le="4"} 0`,
		`evald_batch_rows_bucket{model="stub",version="1",le="8"} 1`,
		`evald_batch_rows_sum{model="stub",version="1"} 5`,
		`evald_ready 1`,
		`evald_gpu_missing{model="stub",version="1"} 1`,
		`evald_gpu_working{gpu="0",model="stub",version="1"} 1`, `evald_gpu_working{gpu="2",model="stub",version="1"} 0`,
		`evald_gpu_lost{gpu="0",model="stub",version="1"} 0`, `evald_gpu_lost{gpu="2",model="stub",version="1"} 1`,
		`evald_gpu_rows_total{gpu="0",model="stub",version="1"} 70`, `evald_gpu_launches_total{gpu="0",model="stub",version="1"} 3`,
		`evald_gpu_busy_seconds_total{gpu="0",model="stub",version="1"} 1.5`, `evald_gpu_faults_total{gpu="2",model="stub",version="1"} 4`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics have no %s", want)
		}
	}
	if strings.Contains(metrics, `model="search",version="1"} 70`) {
		t.Error("the model search counts the same GPUs again")
	}
	if t.Failed() {
		t.Log(metrics)
	}
}

// A reload that failed shows: in the index with its reason, in the readiness without it, and in the metrics. The old weights
// serve, and the next reload that works ends it.
func TestFailedReload(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Repository = true
	load, broken := c.Load, false
	c.Load = func(m Model) (Loaded, error) {
		if broken {
			return Loaded{}, errors.New("/secret/stub.safetensors is torn")
		}
		return load(m)
	}
	s := serve(t, c)
	for _, broken = range []bool{false, true, true, false} {
		s.Reload()
		index, ready := `{"name":"stub","reason":"","state":"READY","version":"1"}`, `{"name":"stub","ready":true}`
		if broken {
			index = strings.Replace(index, `""`, `"the last reload failed, and the weights before it serve: /secret/stub.safetensors is torn"`, 1)
			ready = `{"name":"stub","ready":true,"reason":"the last reload failed, and the weights before it serve"}`
		}
		if _, text := s.post(t, "/v2/repository/index", nil, nil); !strings.Contains(string(text), index) {
			t.Errorf("broken: %v: the index is %s, want %s", broken, text, index)
		}
		if status, text := s.get(t, "/v2/models/stub/ready"); status != http.StatusOK || text != ready+"\n" {
			t.Errorf("broken: %v: readiness is %d %s, want %s", broken, status, text, ready)
		}
		s.answer(t, bitboardRequest(connect4, game.Position{}))
	}
	if want := `evald_reload_failures_total{model="stub",version="1"} 2`; !strings.Contains(s.metricsText(), want) {
		t.Errorf("metrics have no %s", want)
	}
}

// The protocol and the state of the server can be asked for by gRPC's own services.
func TestReflectionAndHealth(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	stream := gametest.Must(reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context()))(t)
	gametest.OK(t, stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	list, err := stream.Recv()
	if err != nil || !strings.Contains(list.String(), `"inference.GRPCInferenceService"`) || !strings.Contains(list.String(), `"grpc.health.v1.Health"`) {
		t.Errorf("reflection: %v, %v", list, err)
	}
	watch, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "inference.GRPCInferenceService"})
	gametest.OK(t, err)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		got, err := watch.Recv()
		if err != nil || got.Status != want {
			t.Errorf("health: %v, %v; want %v", got, err, want)
		}
		s.stop()
	}
	// Neither stream ends by itself; a server that ends tells them and ends them.
	start := time.Now()
	if s.end(t); time.Since(start) > lingerTime {
		t.Errorf("the server ended after %v", time.Since(start))
	}
}

// The configuration of a model is that of its own settings.
func TestModelConfig(t *testing.T) {
	stub := &evaltest.Stub{Source: eval.CPU}
	c := testConfig(stub)
	c.Models = []Model{{Name: "stub"}, {Name: "stub", Version: "2", Settings: Settings{
		MaxRows: 64, MaxDelay: 3 * time.Millisecond, MaxQueued: 1000, MaxWait: [3]time.Duration{50 * time.Millisecond, 0, 4 * time.Second}, InFlight: 3,
		Timeout: 5 * time.Second, Cache: 100, WarmUp: 130, Visits: 20, MaxVisits: 40, Nodes: 1, MaxNodes: 2, Exact: 500,
	}}}
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		l, err := load(m)
		if m.Version == "2" {
			l.Version, l.Devices = "2", func() []Device { return []Device{{Index: 0}, {Index: 2}} }
		}
		return l, err
	}
	s := serve(t, c)
	if got := stub.Sizes(); !slices.Equal(got, []int{64, 64, 2}) {
		t.Errorf("batches of %v rows to warm up, want 64, 64 and 2", got)
	}
	_, got := s.get(t, "/v2/models/stub/config") // the newest version
	var text bytes.Buffer
	gametest.OK(t, json.Indent(&text, []byte(got), "", "  "))
	if want := gametest.Must(os.ReadFile("testdata/config.json"))(t); text.String() != string(want) {
		t.Errorf("the configuration is\n%s\nwant testdata/config.json", text.String())
	}
	_, first := s.get(t, "/v2/models/stub/versions/1/config")
	if !strings.Contains(first, `"preferred_batch_size":[256]`) || !strings.Contains(first, `"instance_group":[{"count":2,"gpus":[],"kind":"KIND_CPU","name":"stub"}]`) || !strings.Contains(first, `"model_warmup":[]`) {
		t.Errorf("version 1: %s", first)
	}
	if g := named(s.models.list(), "stub@2"); g.inFlight != 6 {
		t.Errorf("%d batches in flight on two GPUs, want 6", g.inFlight)
	}
	// A model that fails to warm up is not served, and is closed.
	made, c := mortalConfig(func() { panic("a fault") })
	c.Settings.WarmUp = 1
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), `model "stub": warm-up: `) {
		t.Errorf("a model that fails: %v", err)
	}
	if n := made.all[0].closed.Load(); n != 1 {
		t.Errorf("closed %d times", n)
	}
}

// A GPU that is lost stays in the metrics when a reload finds other GPUs or none, until a model uses
// it again. The model's configuration names only GPUs that compute.
func TestLostGPU(t *testing.T) {
	var gpus []Device
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	load := c.Load
	c.Load = func(m Model) (Loaded, error) {
		l, err := load(m)
		if now := gpus; now != nil {
			l.Devices = func() []Device { return now }
		}
		return l, err
	}
	gpus = []Device{{Index: 0, Working: true}, {Index: 1, Lost: true}, {Index: 2}}
	s := serve(t, c)
	for i, step := range []struct {
		gpus []Device // of the reload
		lost []string // evald_gpu_lost by number
		have []int32
	}{
		{gpus, []string{"0:0", "1:1", "2:0"}, []int32{0, 1, 2}},
		{[]Device{{Index: 0, Working: true}}, []string{"0:0", "1:1"}, []int32{0}},
		{nil, []string{"1:1"}, nil},
		{nil, []string{"1:1"}, nil},
		{[]Device{{Index: 1, Working: true}}, []string{"1:0"}, []int32{1}},
		{nil, nil, nil},
	} {
		if gpus = step.gpus; i > 0 {
			s.Reload()
		}
		var lost []string
		for _, m := range regexp.MustCompile(`(?m)^evald_gpu_lost\{gpu="(\d)".*\} (\d)$`).FindAllStringSubmatch(s.metricsText(), -1) {
			lost = append(lost, m[1]+":"+m[2])
		}
		config := gametest.Must(s.api.ModelConfig(t.Context(), &kserve.ModelConfigRequest{Name: "stub"}))(t)
		if have := config.Config.InstanceGroup[0].Gpus; !slices.Equal(lost, step.lost) || !slices.Equal(have, step.have) {
			t.Errorf("step %d: lost %v, GPUs %v, want %v and %v", i, lost, have, step.lost, step.have)
		}
	}
}
