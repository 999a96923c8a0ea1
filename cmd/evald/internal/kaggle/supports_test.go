package kaggle

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
)

// A board that the agent's network does not support is the client's mistake, and the agent plays on
// elsewhere.
func TestUnsupported(t *testing.T) {
	shared := agent.Shared{Models: func(string) (*eval.Evaluator, error) { return evaltest.Raw(&evaltest.Limited{}), nil }}
	server := httptest.NewServer(Handler{Players: newPlayers(t, "policy:model=limited", 1, shared), Log: log.New(io.Discard, "", 0)})
	defer server.Close()
	for size, want := range map[string]int{`"rows":5,"columns":9`: http.StatusBadRequest, `"rows":6,"columns":7`: http.StatusOK} {
		cells := map[bool]int{true: 45, false: 42}[want == http.StatusBadRequest]
		body := `{"action":"act","configuration":{` + size + `,"inarow":4},"state":{"observation":{"board":[` + strings.Repeat("0,", cells-1) + `0],"mark":1}}}`
		r := gametest.Must(http.Post(server.URL, "application/json", strings.NewReader(body)))(t)
		text := string(gametest.Must(io.ReadAll(r.Body))(t))
		r.Body.Close()
		if r.StatusCode != want || want != http.StatusOK && !strings.Contains(text, "model limited does not know 9x5x4") {
			t.Errorf("%s: %d %s", size, r.StatusCode, text)
		}
	}
}
