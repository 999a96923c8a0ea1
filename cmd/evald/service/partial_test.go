package service

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	nets "github.com/evald/evald/nn/net"
)

// In a partial request, rows that are wrong fail alone, whichever they are: the others have the answers that they have without
// them.
func TestPartial(t *testing.T) {
	c := testConfig(&evaltest.Stub{Source: eval.CPU})
	c.Settings.Visits = 8
	s := serve(t, c)
	r := gametest.Rand(11)
	const n = 9
	pos := gametest.Open(r, connect4, n)
	lines := []string{"44", "3", "9x5x4:1", "1x", "7", "-", "4444444", "12", "5"}
	planes := make([]float32, nets.PlanesSize(connect4, n))
	nets.Planes(connect4, pos, planes)
	size := len(planes) / n
	rounds := 40
	if testing.Short() { // the race detector finds nothing more in repetitions
		rounds = 5
	}
	for range rounds {
		bad := make([]bool, n) // the row is wrong
		for i := range bad {
			bad[i] = r.IntN(3) == 0
		}
		bits, given := client.Bitboards(connect4, pos), slices.Clone(planes)
		for i, wrong := range bad {
			if wrong {
				binary.LittleEndian.PutUint64(bits[16*i:], 1<<63)
				given[i*size+r.IntN(size)] = 7
			}
		}
		for _, c := range []struct {
			ask *kserve.ModelInferRequest
			bad []bool
			row func(i int) *kserve.ModelInferRequest
		}{
			{rawRequest(bitboardsInput, uint64Type, bits, n, 2), bad, func(i int) *kserve.ModelInferRequest { return bitboardRequest(connect4, pos[i]) }},
			{rawRequest(planesInput, floatType, appendNumbers(nil, given), n, 5, 6, 7), bad, func(i int) *kserve.ModelInferRequest { return bitboardRequest(connect4, pos[i]) }},
			{movesRequest(lines), []bool{false, false, true, true, false, false, true, false, false}, func(i int) *kserve.ModelInferRequest { return movesRequest(lines[i : i+1]) }},
		} {
			for _, model := range []string{"stub", searchModel} {
				setParameter(c.ask, "partial", true)
				c.ask.ModelName = model
				want := map[string][]byte{}
				for i, wrong := range c.bad {
					row := c.row(i)
					if row.ModelName = model; wrong {
						row = bitboardRequest(connect4, game.Position{}) // of which the lengths are taken
						row.ModelName = model
					}
					for name, raw := range s.answer(t, row) {
						if wrong && name == sourceOutput {
							raw = appendBytes(nil, refusedRow)
						} else if wrong {
							raw = make([]byte, len(raw))
						}
						want[name] = append(want[name], raw...)
					}
				}
				got := s.answer(t, c.ask)
				for i, raw := 0, got[errorOutput]; i < n; i++ {
					why, rest, _ := cutBytes(raw)
					if raw = rest; (len(why) > 0) != c.bad[i] {
						t.Errorf("row %d of %s: error %q, want one: %v", i, c.ask.Inputs[0].Name, why, c.bad[i])
					}
				}
				delete(got, errorOutput)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s of %s, wrong rows %v (-want +got):\n%s", model, c.ask.Inputs[0].Name, c.bad, diff)
				}
			}
		}
	}
}

// movesRequest asks for lines.
func movesRequest(lines []string) *kserve.ModelInferRequest {
	var raw []byte
	for _, line := range lines {
		raw = appendBytes(raw, line)
	}
	return rawRequest(movesInput, bytesType, raw, int64(len(lines)))
}

// Over REST, on a board that the first good row names; a finished game is wrong if raw answers are asked for; no row may be good.
func TestPartialREST(t *testing.T) {
	s := serve(t, testConfig(&evaltest.Stub{Source: eval.CPU}))
	for _, c := range []struct{ parameters, rows, outputs, want string }{
		{``, `"z","9x5x4:4","4"`, `{"name":"error"},{"name":"source"}`, `{"model_name":"stub","model_version":"1","outputs":[` +
			`{"name":"error","datatype":"BYTES","shape":[3,1],"data":["moves \"z\": move 1 is \"z\", not one of 1 to 7","","is on board 7x6x4, those before it on 9x5x4: a request has one board"]},` +
			`{"name":"source","datatype":"BYTES","shape":[3,1],"data":["refused","cpu","refused"]}]}`},
		{`,"raw":true`, `"1122","4","1122334"`, `{"name":"error"},{"name":"gameover"}`, `{"model_name":"stub","model_version":"1","outputs":[` +
			`{"name":"error","datatype":"BYTES","shape":[3,1],"data":["","","the game is over (loss), and only unfinished games have raw answers"]},` +
			`{"name":"gameover","datatype":"UINT8","shape":[3,1],"data":[0,0,0]}]}`},
		{``, `"x","8","0"`, `{"name":"value"}`, `{"model_name":"stub","model_version":"1","outputs":[{"name":"value","datatype":"FP32","shape":[3,1],"data":[0,0,0]}]}`},
	} {
		body := `{"parameters":{"partial":true` + c.parameters + `},"inputs":[{"name":"moves","datatype":"BYTES","shape":[3],"data":[` + c.rows + `]}],"outputs":[` + c.outputs + `]}`
		if reply, text := s.post(t, inferPath, nil, []byte(body)); reply.StatusCode != http.StatusOK || string(text) != c.want {
			t.Errorf("%s: %d %s, want %s", c.rows, reply.StatusCode, text, c.want)
		}
	}
	for says, body := range map[string]string{
		"must be one of":        strings.Replace(aMove, "{", `{"outputs":[{"name":"error"}],`, 1),
		"must be true or false": strings.Replace(aMove, "{", `{"parameters":{"partial":1},`, 1),
		"row 0: moves":          strings.Replace(aMove, "44", "z", 1),
		"must be 1 to 4096":     strings.NewReplacer("[1]", "[0]", `"44"`, "", `{"inputs`, `{"parameters":{"partial":true},"inputs`).Replace(aMove),
	} {
		if reply, text := s.post(t, inferPath, nil, []byte(body)); reply.StatusCode != http.StatusBadRequest || !bytes.Contains(text, []byte(says)) {
			t.Errorf("%s: %d %s, want %q", body, reply.StatusCode, text, says)
		}
	}
	for says, raw := range map[string][]byte{"row 1: 0 bytes are left": appendBytes(nil, "4"), "5 bytes follow the last": appendBytes(appendBytes(appendBytes(nil, "4"), "z"), "4")} {
		ask := rawRequest(movesInput, bytesType, raw, 2)
		setParameter(ask, "partial", true)
		if _, err := s.api.ModelInfer(t.Context(), ask); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
