package standalone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/models"
)

// said is an object of an answer with its status: 0 if others follow.
type said struct {
	ID     int       `json:"id"`
	Text   string    `json:"text"`
	Status int       `json:"status"`
	Times  []float64 `json:"times"`
}

// network is the file of a network that is quickly made and small.
var network = sync.OnceValues(func() ([]byte, error) {
	whole, _, err := models.Open(Whole)
	if err != nil {
		return nil, err
	}
	return Shrink(context.Background(), whole, 10)
})

// inNode asks the engine for browsers the same questions in node.
func inNode(t testing.TB, network []byte, questions [][]string) (all []said) {
	t.Helper()
	node, err := exec.LookPath("node")
	gametest.Need(t, err == nil, "no node")
	_, err = ReadEngine("built")
	gametest.Need(t, err == nil, "no engine: run make engine")
	file := filepath.Join(t.TempDir(), "network")
	gametest.OK(t, os.WriteFile(file, network, 0o600))
	c := exec.Command(node, "testdata/ask.mjs", gametest.Must(filepath.Abs("built"))(t), file)
	c.Stdin = bytes.NewReader(gametest.Must(json.Marshal(questions))(t))
	c.Stderr = os.Stderr
	out := gametest.Must(c.Output())(t)
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s said
		gametest.OK(t, json.Unmarshal(lines.Bytes(), &s))
		all = append(all, s)
	}
	return all
}

// here asks the engine of this program.
func here(t testing.TB, network []byte, questions [][]string) (all []said) {
	t.Helper()
	a := gametest.Must(New(func(string) ([]byte, error) { return network, nil }))(t)
	for id, q := range questions {
		say := func(x any, status int) error {
			all = append(all, said{ID: id, Text: string(gametest.Must(json.Marshal(x))(t)), Status: status})
			return nil
		}
		last, err := a.Ask(t.Context(), q[0], []byte(q[1]), func(x any) error { return say(x, 0) })
		if err != nil {
			r := answer.Describe(err)
			_ = say(r, r.Status)
			continue
		}
		_ = say(last, 200)
	}
	return all
}

// The engine in WebAssembly answers as this program does: on random positions of several boards,
// and with the same refusals. Of an analysis the last objects of a kind are compared, because those
// before depend on the time.
func TestSame(t *testing.T) {
	file := gametest.Must(network())(t)
	var questions [][]string
	add := func(name, format string, args ...any) {
		questions = append(questions, []string{name, fmt.Sprintf(format, args...)})
	}
	add("config", "")
	for _, position := range []string{"7x6x4:-", "7x6x4:44455261", "7x6x4:444444226626661553", "5x5x4:33142", "3x3x3free:51", "9x7x5:55454"} {
		add("game", `{"position":%q,"human":[true,false]}`, position)
		add("values", `{"position":%q}`, position)
		add("tree", `{"position":%q,"visits":60}`, position)
		add("opinion", `{"position":%q}`, position)
		add("opinion", `{"position":%q,"model":"gameovers"}`, position)
		add("move", `{"position":%q,"agent":"policy"}`, position)
		add("move", `{"position":%q,"agent":"mcts:model=small,visits=40"}`, position)
		add("analyze", `{"position":%q,"visits":50}`, position)
		add("game", `{"position":%q,"do":"play","move":"9"}`, position)
	}
	late := "7x6x4:" + "7371311325657771745663464"
	add("analyze", `{"position":%q,"visits":0,"solve":true}`, late[:len(late)-4])
	add("why", `{"position":%q,"move":20}`, late)
	add("review", `{"game":"4x4x4:1122334"}`)
	add("read", `{"text":"4, 4"}`)
	add("read", `{"text":"x"}`)
	add("move", `{"position":"44","agent":"mcts:model=/etc/passwd"}`)
	add("values", `{"positions":"44"}`)
	add("nothing", `{}`)

	want, got := here(t, file, questions), inNode(t, file, questions)
	got = got[:len(got)-1]
	if diff := cmp.Diff(essence(t, questions, want), essence(t, questions, got)); diff != "" {
		t.Errorf("-this program +WebAssembly:\n%s", diff)
	}
}

// A question that computes in WebAssembly can be cancelled, and the next one is answered.
func TestCancel(t *testing.T) {
	file := gametest.Must(network())(t)
	got := inNode(t, file, [][]string{
		{"analyze", `{"position":"7x6x4:-","solve":true,"visits":200000}`, "cancel"},
		{"read", `{"text":"4, 4"}`},
	})
	at := slices.IndexFunc(got, func(s said) bool { return s.Status < 0 })
	if at < 0 || len(got) != at+3 || got[at+1].ID != 1 || got[at+1].Status != 200 {
		t.Errorf("the answers are %+v", got)
	}
}

// essence returns what is the same in both engines: the last object of each kind of an answer,
// without times.
func essence(t testing.TB, questions [][]string, all []said) map[string]string {
	texts := map[string]string{}
	for _, s := range all {
		var object map[string]any
		gametest.OK(t, json.Unmarshal([]byte(s.Text), &object))
		delete(object, "seconds")
		text := gametest.Must(json.Marshal(object))(t)
		kind, _ := object["type"].(string)
		texts[fmt.Sprintf("%d %s %s %s", s.ID, strings.Join(questions[s.ID], " "), kind, map[bool]string{true: fmt.Sprint(s.Status)}[s.Status > 0])] = string(text)
	}
	return texts
}
