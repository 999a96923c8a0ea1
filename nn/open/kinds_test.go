package open_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/open"
)

// sample is a small network. Tests of what all kinds of networks do run over samples.
type sample struct {
	name, what, config string
	file               []byte
	source             eval.Source
}

// samples returns samples of all kinds, which it makes once.
func samples(t *testing.T) []sample {
	t.Helper()
	if len(allSamples) > 0 {
		return allSamples
	}
	s, n, err := open.Model(seeded)
	gametest.OK(t, err)
	fast := quick(t)
	all := []sample{
		{"conv", "a network of convolutions", "2x16/8/16", s.Content, eval.CPU},
		{"tables", "a network of pattern tables", "pattern64x16x16", gametest.Must(fast.Marshal())(t), eval.Fast},
		{"foreign", "an ONNX file", open.ForeignConfig, gametest.Must(onnx.Marshal(n, "foreign", onnx.Options{}))(t), eval.ORTCPU},
		{"foreign7x6", "an ONNX file", open.ForeignConfig, onnx.MarshalPattern(fast, "foreign7x6"), eval.ORTCPU},
		{"toy", "a toy", "toy", open.Toy(), eval.CPU},
	}
	has, count := map[int]bool{}, 0
	for _, s := range all {
		var kind int
		kind, count = open.KindOf(s.file)
		has[kind] = true
	}
	if len(has) != count {
		t.Fatalf("there are samples of %d kinds of networks, and there are %d kinds", len(has), count)
	}
	allSamples = all
	return all
}

var allSamples []sample

// ofAll runs a test for a sample of each kind, in a store of models of its own. path is the network's file.
func ofAll(t *testing.T, run func(t *testing.T, s sample, path string, n open.Network)) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Setenv("EVALD_MODELS", t.TempDir())
			path := inFile(t, s.name+".net", s.file)
			_, n, err := open.File(path)
			gametest.OK(t, err)
			run(t, s, path, n)
		})
	}
}

// boards are those on which tests ask a network.
func boards(t *testing.T, n open.Network) []*game.Board {
	t.Helper()
	if n.Only() != "" {
		return []*game.Board{gametest.Must(new(game.Boards).Parse(n.Only()))(t)}
	}
	return []*game.Board{connect4, nineFive}
}

// A network of each kind, opened by its name, passes the suite of all evaluators, and its answers are its reference's.
func TestKindsAnswer(t *testing.T) {
	ofAll(t, func(t *testing.T, s sample, path string, n open.Network) {
		backends := []string{open.Auto, open.CPU}
		if n.Runtime() != "" {
			needRuntime(t)
			backends = backends[:1] // without a GPU the other does the same
		}
		gametest.OK(t, n.Check(t.Context(), s.name, n.Rules(), open.Options{}))
		for _, backend := range backends {
			e, _ := opened(t, open.Options{Model: path, Backend: backend})
			if e.Model != s.name || !e.Network || e.Version != 0 || !strings.HasPrefix(e.How, "network ") {
				t.Errorf("%s: %+v", backend, e)
			}
			evaltest.Run(t, evaltest.Config{
				Boards: boards(t, n), Sources: []eval.Source{s.source},
				New: func(testing.TB) *eval.Evaluator { return evaltest.Raw(e.Backend()) },
			})
			evaltest.Rules(t, e.Evaluator, connect4, 200, 18)
		}
	})
}

// What a file says of its network is the same for each kind, and stays when a text is added to its metadata.
func TestKindsFiles(t *testing.T) {
	ofAll(t, func(t *testing.T, s sample, path string, n open.Network) {
		content := gametest.Must(n.WithSearch(eval.Search{CPUCT: 2, FPU: 0.5}))(t)
		stored, again, err := open.Any(inFile(t, s.name+".net", content))
		gametest.OK(t, err)
		search := gametest.Must(again.Search())(t)
		if n.What() != s.what || again.What() != s.what || n.Config() != s.config || stored.Config != s.config || !cmp.Equal(search, &eval.Search{CPUCT: 2, FPU: 0.5}) {
			t.Errorf("%s %s, %s %s, %+v", n.What(), n.Config(), again.What(), stored.Config, search)
		}
		if n.Parameters() == 0 || again.Parameters() != n.Parameters() || !cmp.Equal(again.About(), n.About()) || len(n.About()) == 0 {
			t.Errorf("%d parameters, %v; again %d, %v", n.Parameters(), n.About(), again.Parameters(), again.About())
		}
		// A part of a file is an error that names the file.
		for _, bytes := range []int{0, 5, len(s.file) / 2, len(s.file) - 1} {
			cut := inFile(t, "cut.net", s.file[:bytes])
			if _, _, err := open.Any(cut); err == nil || !strings.HasPrefix(err.Error(), cut+": ") {
				t.Errorf("%d bytes of %d: %v", bytes, len(s.file), err)
			}
		}
	})
}

// The store keeps a network of each kind. By its name it is the same network, and it needs the memory that it says.
func TestKindsInStore(t *testing.T) {
	ofAll(t, func(t *testing.T, s sample, _ string, n open.Network) {
		add(t, models.Entry{Name: "mine", File: n.File(), Config: n.Config(), Trained: true, Rules: []string{"7x6x4"}}, s.file)
		found, ok, err := open.Lookup("mine")
		if err != nil || !ok || filepath.Base(found.Path) != n.File() {
			t.Fatalf("%+v, %v", found, err)
		}
		stored, again, err := open.Any("mine")
		if err != nil || again.What() != s.what || stored.Label() != "mine@1" || stored.Warning() != "" || !slices.Equal(stored.Content, s.file) {
			t.Errorf("%s, %s, %v", stored.Label(), again.What(), err)
		}
		if bytes, err := stored.Bytes(); err != nil || bytes < int64(again.Parameters()) {
			t.Errorf("%d parameters take %d bytes: %v", again.Parameters(), bytes, err)
		}
		if n.Runtime() != "" {
			needRuntime(t)
		}
		if e, _ := opened(t, open.Options{Model: "mine"}); e.Model != "mine@1" || e.Version != 1 {
			t.Errorf("%+v", e)
		}
	})
}

// What a kind cannot do is an error with the reason, for each kind in the same words.
func TestKindsRefuse(t *testing.T) {
	ofAll(t, func(t *testing.T, s sample, path string, n open.Network) {
		_, _, err := open.Model(path)
		if want := "model " + path + " is " + s.what + ", and this needs a network of convolutions of evald's own"; s.name != "conv" && (err == nil || err.Error() != want) {
			t.Errorf("as convolutions: %v, want %s", err, want)
		}
		for _, why := range []error{n.Trains(), n.Halves()} {
			if why != nil && !strings.HasPrefix(why.Error(), "which ") {
				t.Errorf("the reason %q completes no sentence", why)
			}
		}
		if err := n.Becomes(s.config, 1); (err == nil) != (n.Trains() == nil) || err != nil && !strings.HasSuffix(err.Error(), n.Trains().Error()) {
			t.Errorf("training can begin with it: %v, training: %v", err, n.Trains())
		}
		for _, other := range []string{"1x2/1/1", "pattern64x32x32", "nonsense"} {
			if err := n.Becomes(other, 1); err == nil || n.Trains() == nil && !strings.Contains(err.Error(), "network "+s.config+" cannot become "+other+": ") {
				t.Errorf("it becomes %s: %v", other, err)
			}
		}
		for _, backend := range []string{"bitsquares", "tpu"} {
			if _, err := n.Open("n", open.Options{Backend: backend}); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("backend %q: must be one of auto, ", backend)) {
				t.Errorf("backend %s: %v", backend, err)
			}
		}
	})
}

// As an ONNX file, a network of each kind answers as before, or an error says why there is none.
func TestKindsExport(t *testing.T) {
	needRuntime(t)
	ofAll(t, func(t *testing.T, s sample, path string, n open.Network) {
		content, err := n.ONNX("exported", false)
		if s.name == "toy" {
			if err == nil || !strings.Contains(err.Error(), "no form in ONNX") {
				t.Errorf("a toy as ONNX: %v", err)
			}
			return
		}
		gametest.OK(t, err)
		backends := []string{open.Auto}
		switch s.name {
		case "conv":
			backends = []string{open.Auto, open.CPU, open.ORTCPU}
		case "foreign", "foreign7x6":
			if !slices.Equal(content, s.file) {
				t.Error("an ONNX file is exported as another one")
			}
			return
		}
		for _, backend := range backends {
			e, _ := opened(t, open.Options{Model: inFile(t, "exported.onnx", content), Backend: backend})
			if e.Model != "exported" || !e.Network || e.OnGPU || !strings.Contains(e.How, "ONNX Runtime") {
				t.Errorf("%s: %+v", backend, e)
			}
			own, _ := opened(t, open.Options{Model: path, Backend: open.CPU, CPUPath: "go"})
			for _, board := range boards(t, n) {
				pos := gametest.Open(gametest.Rand(4), board, 70)
				got, want := evaluate(t, e.Evaluator, board, pos), evaluate(t, own.Evaluator, board, pos)
				if d := max(apart(got.WDL, want.WDL), apart(got.Policy, want.Policy)); !(d <= 1e-4) || !slices.Contains(got.Source, eval.ORTCPU) {
					t.Errorf("%s on %v: %.2g away from its own kernels, sources %v", backend, board.Rules(), d, got.Source[:3])
				}
			}
		}
	})
}

// A service describes a network of each kind over REST as over gRPC, and answers with its bits.
func TestKindsServed(t *testing.T) {
	ofAll(t, func(t *testing.T, s sample, path string, n open.Network) {
		if n.Runtime() != "" {
			needRuntime(t)
		}
		e, _ := opened(t, open.Options{Model: path, Backend: open.CPU})
		limits := service.DefaultLimits
		limits.Timeout, limits.Receive = time.Minute, time.Minute
		server := gametest.Must(service.New(service.Config{
			Rules: game.Connect4, Models: []service.Model{{Name: s.name}}, Settings: service.DefaultSettings, Limits: limits, DrainTime: time.Minute,
			Load: func(service.Model) (service.Loaded, error) {
				return service.Loaded{Backend: e.Backend(), Version: "7", Platform: service.NetworkPlatform, Describe: e.How}, nil
			},
		}))(t)
		listen := func() net.Listener { return gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t) }
		l, ended := service.Listeners{GRPC: listen(), HTTP: listen()}, make(chan error)
		go func() { ended <- server.Serve(t.Context(), l) }()
		t.Cleanup(func() { gametest.OK(t, <-ended) })

		credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
		conn := gametest.Must(grpc.NewClient(l.GRPC.Addr().String(), credentials))(t)
		defer conn.Close()
		said := gametest.Must(kserve.NewGRPCInferenceServiceClient(conn).ModelMetadata(t.Context(), &kserve.ModelMetadataRequest{Name: s.name}))(t)
		response := gametest.Must(http.Get("http://" + l.HTTP.Addr().String() + "/v2/models/" + s.name))(t)
		defer http.DefaultClient.CloseIdleConnections()
		var rest struct {
			Name, Platform  string
			Versions        []string
			Inputs, Outputs []struct{ Name string }
		}
		gametest.OK(t, json.Unmarshal(gametest.Must(io.ReadAll(response.Body))(t), &rest))
		gametest.OK(t, response.Body.Close())
		if said.Name != s.name || rest.Name != s.name || rest.Platform != said.Platform || !slices.Equal(rest.Versions, said.Versions) ||
			len(rest.Outputs) != len(said.Outputs) || len(rest.Inputs) != len(said.Inputs) || rest.Versions[0] != "7" {
			t.Errorf("over REST %+v, over gRPC %v", rest, said)
		}

		c := gametest.Must(client.Dial(l.GRPC.Addr().String(), s.name, credentials))(t)
		defer c.Close()
		pos := gametest.Open(gametest.Rand(6), connect4, 40)
		got, want := evaluate(t, evaltest.Raw(c), connect4, pos), evaluate(t, evaltest.Raw(e.Backend()), connect4, pos)
		if !cmp.Equal(got.WDL, want.WDL) || !cmp.Equal(got.Policy, want.Policy) || got.Source[0] != s.source {
			t.Errorf("by %s, over gRPC %v, else %v", got.Source[0], got.WDL[:3], want.WDL[:3])
		}
	})
}
