package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// Attacks on the service. Each is a client that requests as much as it can at little cost to itself. During an attack the
// program's memory stays below 1.2 times --memory, and other clients are answered. Afterwards the service is as before.
// EVALD_SOAK=1m makes each attack that long and prints how fast the others were answered; without it an attack takes a
// second, and each day has a third of them. Attackers on the same machine have the lowest priority. The service joins the control group whose folder is
// EVALD_CGROUP, if that is set.

// attack is a client with an IP address of its own.
type attack struct {
	http, grpc string
	dialer     net.Dialer
	web, web2  *http.Client // of HTTP/1 and HTTP/2
	seen       atomic.Int64 // successful calls and connections
}

func newAttack(address map[string]string) *attack {
	a := &attack{http: address["http"], grpc: address["grpc"]}
	if runtime.GOOS == "linux" { // there, all of 127.0.0.0/8 is this machine
		a.dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
	}
	a.web = &http.Client{Transport: &http.Transport{DialContext: a.dialer.DialContext, MaxIdleConnsPerHost: 64}}
	var two http.Protocols
	two.SetUnencryptedHTTP2(true)
	a.web2 = &http.Client{Transport: &http.Transport{DialContext: a.dialer.DialContext, Protocols: &two}}
	return a
}

// repeat calls f in n goroutines until ctx ends.
func (a *attack) repeat(ctx context.Context, n int, f func(ctx context.Context) error) {
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			for ctx.Err() == nil {
				if f(ctx) == nil {
					a.seen.Add(1)
				}
				select { // without a pause the attackers would take all processors of this machine
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	wait.Wait()
}

// post sends a body and reads the whole answer.
func (a *attack) post(ctx context.Context, path, encoding string, body io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.http+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	return readAll(a.web, r)
}

// send makes a call of gRPC with a message in the form in which it is sent, which libraries would make anew for each call.
func (a *attack) send(ctx context.Context, message []byte, encoding string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.grpc+kserve.GRPCInferenceService_ModelInfer_FullMethodName, bytes.NewReader(message))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Encoding": {encoding}}
	return readAll(a.web2, r)
}

// readAll sends a request and reads the whole answer.
func readAll(c *http.Client, r *http.Request) error {
	reply, err := c.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return err
}

func (a *attack) dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20), grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return a.dialer.DialContext(ctx, "tcp", to) }))
	return grpc.NewClient("passthrough:///"+a.grpc, options...)
}

// calls makes calls from n goroutines over one connection until ctx ends.
func (a *attack) calls(ctx context.Context, n int, f func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error) {
	conn, err := a.dial()
	if err != nil {
		return
	}
	defer conn.Close()
	api := kserve.NewGRPCInferenceServiceClient(conn)
	a.repeat(ctx, n, func(ctx context.Context) error { return f(ctx, api) })
}

// open holds n connections. It sends first on each, and then again repeatedly if that is not nil.
func (a *attack) open(ctx context.Context, n int, address string, first, again []byte) {
	a.repeat(ctx, n, func(ctx context.Context) error {
		conn, err := a.dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		if _, err := conn.Write(first); err != nil {
			return err
		}
		a.seen.Add(1)
		for ctx.Err() == nil {
			if again == nil { // until the server closes it
				_, err := io.Copy(io.Discard, conn)
				return err
			}
			if _, err := conn.Write(again); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	})
}

const inferURL = "/v2/models/bitsquares/infer"

func zipped(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text)
	w.Close()
	return b.Bytes()
}

// filled repeats a text up to 8 MiB between two others.
func filled(before, text, after string) []byte {
	return []byte(before + strings.Repeat(text, (8<<20-len(before)-len(after))/len(text)) + after)
}

func emptyInputs(n int) *kserve.ModelInferRequest {
	r := &kserve.ModelInferRequest{ModelName: "bitsquares", Inputs: make([]*kserve.ModelInferRequest_InferInputTensor, n)}
	for i := range r.Inputs {
		r.Inputs[i] = &kserve.ModelInferRequest_InferInputTensor{}
	}
	return r
}

// positionsRequest asks a model for n empty boards.
func positionsRequest(model string, n int) *kserve.ModelInferRequest {
	board := game.MustBoard(game.Connect4)
	return &kserve.ModelInferRequest{
		ModelName:        model,
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: "bitboards", Datatype: "UINT64", Shape: []int64{int64(n), 2}}},
		RawInputContents: [][]byte{client.Bitboards(board, make([]game.Position, n))},
	}
}

// wire records what a client of HTTP/2 sends. It is written by hand because libraries send whole messages and read answers.
type wire struct {
	bytes.Buffer
	framer *http2.Framer
}

// newWire begins a connection that lets the server send window bytes on each stream.
func newWire(window uint32) *wire {
	w := new(wire)
	w.WriteString(http2.ClientPreface)
	w.framer = http2.NewFramer(&w.Buffer, nil)
	_ = w.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	return w
}

// call begins a call with the first part of its message.
func (w *wire) call(id uint32, authority string, message []byte, whole bool) {
	var b bytes.Buffer
	h := hpack.NewEncoder(&b)
	h.SetMaxDynamicTableSizeLimit(0)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", kserve.GRPCInferenceService_ModelInfer_FullMethodName},
		{":authority", authority},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = h.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
	w.data(id, message, whole)
}

func (w *wire) data(id uint32, b []byte, last bool) { _ = w.framer.WriteData(id, last, b) }

// take removes and returns the last n bytes, or all if n is negative.
func (w *wire) take(n int) []byte {
	if n < 0 {
		n = w.Len()
	}
	out := slices.Clone(w.Bytes()[w.Len()-n:])
	w.Truncate(w.Len() - n)
	return out
}

// attacks are the attacks by name.
var attacks = map[string]func(ctx context.Context, a *attack){
	"zipped empty inputs, REST": func(ctx context.Context, a *attack) {
		body := zipped(filled(`{"inputs":[{}`, `,{}`, `]}`))
		a.repeat(ctx, 8, func(ctx context.Context) error { return a.post(ctx, inferURL, "gzip", bytes.NewReader(body)) })
	},
	"empty inputs, REST": func(ctx context.Context, a *attack) {
		body := filled(`{"inputs":[{}`, `,{}`, `]}`)
		a.repeat(ctx, 8, func(ctx context.Context) error { return a.post(ctx, inferURL, "", bytes.NewReader(body)) })
	},
	"a parameter of lists, REST": func(ctx context.Context, a *attack) {
		body := filled(`{"parameters":{"a":[[]`, `,[]`, `]},"inputs":[]}`)
		a.repeat(ctx, 4, func(ctx context.Context) error { return a.post(ctx, inferURL, "", bytes.NewReader(body)) })
	},
	"values before their shape, REST": func(ctx context.Context, a *attack) {
		body := filled(`{"inputs":[{"data":[0`, `,0`, `],"name":"bitboards","datatype":"UINT64","shape":[4000000,1]}]}`)
		a.repeat(ctx, 8, func(ctx context.Context) error { return a.post(ctx, inferURL, "", bytes.NewReader(body)) })
	},
	"bodies that never end, REST": func(ctx context.Context, a *attack) {
		body := filled(`{"inputs":[{"data":[0`, `,0`, ``)
		a.repeat(ctx, 300, func(ctx context.Context) error {
			never, end := io.Pipe()
			defer end.Close()
			stop := context.AfterFunc(ctx, func() { end.Close() })
			defer stop()
			go func() {
				for rest := body[:7<<20]; len(rest) > 0 && ctx.Err() == nil; rest = rest[32<<10:] {
					if _, err := end.Write(rest[:32<<10]); err != nil {
						return
					}
					time.Sleep(200 * time.Millisecond)
				}
			}()
			return a.post(ctx, inferURL, "", never)
		})
	},
	"zipped empty inputs, gRPC": func(ctx context.Context, a *attack) {
		text, err := proto.Marshal(emptyInputs(3_900_000))
		if err != nil {
			return
		}
		text = zipped(text) // once: this attack costs its client nothing
		message := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(text))), text...)
		a.repeat(ctx, 4, func(ctx context.Context) error { return a.send(ctx, message, "gzip") })
	},
	"messages that never end, gRPC": func(ctx context.Context, a *attack) {
		w := newWire(65535)
		head := make([]byte, 5+8<<10)
		binary.BigEndian.PutUint32(head[1:], 8<<20-100)
		w.call(1, a.grpc, head, false)
		w.data(1, make([]byte, 1<<10), false)
		again := w.take(9 + 1<<10)
		a.open(ctx, 300, a.grpc, w.take(-1), again)
	},
	"searches of one visit": func(ctx context.Context, a *attack) {
		ask := positionsRequest("search", 2048) // 4096 would take more than a request may have
		ask.Parameters = map[string]*kserve.InferParameter{"visits": {ParameterChoice: &kserve.InferParameter_Int64Param{Int64Param: 1}}}
		a.calls(ctx, 64, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			_, err := api.ModelInfer(ctx, ask)
			return err
		})
	},
	"proofs of many nodes": func(ctx context.Context, a *attack) {
		board := game.MustBoard(game.Connect4)
		raw := client.Bitboards(board, gametest.Open(gametest.Rand(1), board, 1024))
		a.calls(ctx, 64, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			ask := positionsRequest("bitsquares", 1024)
			ask.RawInputContents[0] = raw
			nodes := solver.MostNodes - a.seen.Add(1)%1000 // each needs tables of its own
			ask.Parameters = map[string]*kserve.InferParameter{"exact": {ParameterChoice: &kserve.InferParameter_Int64Param{Int64Param: nodes}}}
			_, err := api.ModelInfer(ctx, ask)
			return err
		})
	},
	"searches with probes": func(ctx context.Context, a *attack) {
		board := game.MustBoard(game.Connect4)
		ask := positionsRequest("search", 255) // one more would wait for its turn
		ask.RawInputContents[0] = client.Bitboards(board, gametest.Open(gametest.Rand(1), board, 255))
		a.calls(ctx, 64, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			_, err := api.ModelInfer(ctx, ask)
			return err
		})
	},
	"streams whose answers are not read": func(ctx context.Context, a *attack) {
		ask := positionsRequest("bitsquares", 4096)
		a.calls(ctx, 32, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			stream, err := api.ModelStreamInfer(ctx)
			if err != nil {
				return err
			}
			for range 200 {
				if err := stream.Send(ask); err != nil {
					return err
				}
				a.seen.Add(1)
			}
			<-ctx.Done()
			return nil
		})
	},
	"answers without a window": func(ctx context.Context, a *attack) {
		text, err := proto.Marshal(positionsRequest("bitsquares", 8))
		if err != nil {
			return
		}
		w := newWire(0)
		message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
		for id := uint32(1); id < 400; id += 2 {
			w.call(id, a.grpc, message, true)
		}
		a.open(ctx, 20, a.grpc, w.take(-1), nil)
	},
	"long headers, gRPC": func(ctx context.Context, a *attack) {
		w := newWire(65535)
		_ = w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bytes.Repeat([]byte{0x90}, 16<<10)}) // fields of the static table
		first := w.take(-1)
		_ = w.framer.WriteContinuation(1, false, bytes.Repeat([]byte{0x90}, 16))
		a.open(ctx, 300, a.grpc, first, w.take(-1))
	},
	"long headers, REST": func(ctx context.Context, a *attack) {
		a.open(ctx, 300, a.http, []byte("GET /v2 HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("a", 100<<10)), []byte("aaaa"))
	},
	"long names to load": func(ctx context.Context, a *attack) {
		name := strings.Repeat("x", 7<<20)
		a.calls(ctx, 4, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			_, err := api.RepositoryModelLoad(ctx, &kserve.RepositoryModelLoadRequest{ModelName: name + strconv.Itoa(int(a.seen.Add(1)))})
			return err
		})
	},
	"long boards": func(ctx context.Context, a *attack) {
		zeros := strings.Repeat("0", 7<<20)
		a.calls(ctx, 4, func(ctx context.Context, api kserve.GRPCInferenceServiceClient) error {
			ask := positionsRequest("bitsquares", 1)
			ask.Parameters = map[string]*kserve.InferParameter{"board": {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: zeros[a.seen.Add(1):] + "7x6x4"}}}
			_, err := api.ModelInfer(ctx, ask)
			return err
		})
	},
	"larger boards in rows": func(ctx context.Context, a *attack) {
		row := `,"1x127x2free:60"`
		body := `{"parameters":{"board":"1x1x1"},"inputs":[{"name":"moves","datatype":"BYTES","shape":[4096],"data":[` +
			strings.Repeat(row, 4096)[1:] + `]}],"outputs":[{"name":"policy"}]}`
		a.open(ctx, 60, a.http, fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", inferURL, len(body), body), []byte(" "))
	},
	"reviews, REST": func(ctx context.Context, a *attack) {
		a.repeat(ctx, 64, func(ctx context.Context) error {
			game := []string{"7x6x4:121212", "11x10x5:" + strings.Repeat("123456789ab", 3), "15x7x5free:1g3i5k7m"}[a.seen.Add(1)%3]
			return a.post(ctx, "/ui/review", "", strings.NewReader(`{"game":"`+strings.Repeat(" ", 100<<10)+game+`"}`))
		})
	},
	"replays that never end": func(ctx context.Context, a *attack) {
		body := `{"game":"{\"name\":\"connectx\",\"steps\":[` + strings.Repeat("[{},{}],", 10<<10)
		a.open(ctx, 300, a.http, fmt.Appendf(nil, "POST /ui/review HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 120<<10, body), []byte(" "))
	},
	"explanations, REST": func(ctx context.Context, a *attack) {
		a.repeat(ctx, 64, func(ctx context.Context) error {
			return a.post(ctx, "/ui/why", "", strings.NewReader(`{"position":"9x7x5:55454646","move":1}`))
		})
	},
	"trees of the page": func(ctx context.Context, a *attack) {
		a.repeat(ctx, 64, func(ctx context.Context) error {
			return a.post(ctx, "/ui/tree", "", strings.NewReader(`{"position":"12x9x5:5","visits":100000}`))
		})
	},
	"pictures of large boards": func(ctx context.Context, a *attack) {
		a.repeat(ctx, 64, func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.http+"/ui/position.png?position=1x127x2free:60&size=1024", nil)
			if err != nil {
				return err
			}
			return readAll(a.web, r)
		})
	},
	"idle connections, gRPC": func(ctx context.Context, a *attack) { a.open(ctx, 1100, a.grpc, nil, nil) },
	"idle connections, REST": func(ctx context.Context, a *attack) { a.open(ctx, 1100, a.http, nil, nil) },
	"slow headers, REST": func(ctx context.Context, a *attack) {
		a.open(ctx, 1100, a.http, []byte("POST "+inferURL+" HTTP/1.1\r\nHost: x\r\n"), []byte("A: b\r\n"))
	},
}

const attackedMemory = 256 // MiB

// Each attack alone.
func TestAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("a second for each attack")
	}
	d, long := gametest.SoakTime(t, time.Second), gametest.Soak()
	v := newVictim(t, fmt.Sprintf("--backend bitsquares --repository --memory %dMiB", attackedMemory))
	calm := v.visitor(d)
	v.web.CloseIdleConnections()
	goroutines, files := v.gauge("go_goroutines"), v.gauge("process_open_fds")
	t.Logf("without an attack: %d of %d answered, p99 %v; %d MiB, %d goroutines, %d files", calm.answered, calm.sent, calm.p99(), v.peak(), goroutines, files)
	for i, name := range slices.Sorted(maps.Keys(attacks)) {
		if !gametest.Today(t, i, 6) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			v.t = t
			v.atRest(goroutines, files)
			v.visitor(100 * time.Millisecond) // so that the visitor is known before the attack
			v.clear()
			wait := v.attacked([]string{name}, d)
			got := v.visitor(d)
			seen := wait()
			peak := v.peak()
			t.Logf("%d of %d answered, p99 %v (calm %v); peak %d MiB; the attacker got %d done; last error %v", got.answered, got.sent, got.p99(), calm.p99(), peak, seen, got.last)
			if peak > attackedMemory*6/5 {
				t.Errorf("%d MiB resident with --memory %dMiB", peak, attackedMemory)
			}
			if got.answered*10 < got.sent*9 {
				t.Errorf("%d of %d requests of others were answered: %v", got.answered, got.sent, got.last)
			}
			if long && got.p99() > 3*calm.p99() {
				t.Errorf("p99 %v, without the attack %v", got.p99(), calm.p99())
			}
		})
	}
	v.t = t
	v.atRest(goroutines, files)
}

// All attacks at once, while the file of the served network is repeatedly damaged, truncated and repaired.
func TestAttacksTogether(t *testing.T) {
	d, long := gametest.SoakTime(t, time.Second), gametest.Soak()
	if !long {
		t.Skip("takes EVALD_SOAK=10m")
	}
	whole := gametest.Must(os.ReadFile("../../models/seeded-2x16.safetensors"))(t)
	path := filepath.Join(t.TempDir(), "mine.safetensors")
	gametest.OK(t, os.WriteFile(path, whole, 0o600))
	file := filepath.Join(t.TempDir(), "models.yaml") // the attacks ask bitsquares
	gametest.OK(t, os.WriteFile(file, fmt.Appendf(nil, "models:\n  - {name: bitsquares, backend: bitsquares}\n  - {name: mine, file: %q}\n", path), 0o600))
	args, memory := fmt.Sprintf(" --memory %dMiB", attackedMemory), attackedMemory
	if os.Getenv("EVALD_CGROUP") != "" { // the service then detects its limit itself
		args, memory = "", 384
	}
	v := newVictim(t, fmt.Sprintf("--models %s --watch 100ms --repository%s", file, args))
	calm := v.visitor(10 * time.Second)
	v.web.CloseIdleConnections()
	goroutines, files, before := v.gauge("go_goroutines"), v.gauge("process_open_fds"), v.resident()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	attackers := v.attacked(slices.Collect(maps.Keys(attacks)), d)
	var wait sync.WaitGroup
	wait.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for i := 0; ctx.Err() == nil; i++ {
			damaged := slices.Clone(whole)
			switch i % 3 {
			case 0:
				damaged = damaged[:r.IntN(len(damaged))]
			case 1:
				for range 1 + r.IntN(100) {
					damaged[r.IntN(len(damaged))] ^= byte(1 + r.IntN(255))
				}
			}
			_ = os.WriteFile(path, damaged, 0o600)
			time.Sleep(200 * time.Millisecond)
		}
	})
	got := v.visitor(d)
	wait.Wait()
	attackers()
	peak := v.peak()
	v.atRest(goroutines, files)
	after := v.resident()
	for end := time.Now().Add(30 * time.Second); after > before*6/5 && time.Now().Before(end); after = v.resident() {
		time.Sleep(time.Second)
	}
	t.Logf("calm: %d of %d answered, p99 %v; attacked: %d of %d, p99 %v, last error %v; peak %d MiB, %d MiB before, %d MiB after", calm.answered, calm.sent, calm.p99(), got.answered, got.sent, got.p99(), got.last, peak, before, after)
	if peak > memory*6/5 {
		t.Errorf("%d MiB resident with --memory %dMiB", peak, memory)
	}
	if after > before*6/5 {
		t.Errorf("%d MiB resident at rest, %d before", after, before)
	}
}
