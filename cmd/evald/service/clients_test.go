package service

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// byClient are the counts of each client: requests, rows and refused ones.
func (s *serving) byClient() map[string]string {
	found := map[string]string{}
	for _, metric := range []string{"requests", "rows", "refused"} {
		for _, m := range regexp.MustCompile(`(?m)^evald_client_`+metric+`_total\{client="([^"]*)"\} (.*)`).FindAllStringSubmatch(s.metricsText(), -1) {
			found[m[1]] = strings.TrimSpace(found[m[1]] + " " + m[2])
		}
	}
	return found
}

// Requests for inference are counted by the token of their client, with its name if it has one, those of a stream by themselves.
func TestClientCounts(t *testing.T) {
	stub, entered, open := gate()
	defer open()
	c := testConfig(stub)
	c.Tokens = tokens(t, "inference first\n\ninference,health second weight=2 name=nightly\nmetadata -\n")
	c.Limits.Requests = 1
	s := serve(t, c)
	as := func(token string) func(n int) error {
		return func(n int) error {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
			_, err := s.api.ModelInfer(ctx, bitboardRequest(connect4, make([]game.Position, n)...))
			return err
		}
	}
	header := map[string]string{"Authorization": "Bearer second"}
	answered := make(chan error, 1)
	go func() { answered <- as("first")(3) }()
	<-entered
	if err := as("second")(1); err == nil { // refused: there is one request under way
		t.Error("answered beyond --requests")
	}
	if reply, text := s.post(t, inferPath, header, []byte(aMove)); reply.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%d %s", reply.StatusCode, text)
	}
	open()
	gametest.OK(t, <-answered)
	s.post(t, inferPath, header, []byte(aMove))
	s.post(t, inferPath, header, []byte("{")) // is no position
	s.post(t, inferPath, nil, []byte(aMove))  // has no token
	s.get(t, "/v2/health/live")
	s.get(t, "/v2")
	stream := gametest.Must(s.api.ModelStreamInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer first")))(t)
	for range 2 {
		gametest.OK(t, stream.Send(bitboardRequest(connect4, make([]game.Position, 10)...)))
		if m := gametest.Must(stream.Recv())(t); m.ErrorMessage != "" {
			t.Fatal(m.ErrorMessage)
		}
	}
	gametest.OK(t, stream.CloseSend())
	s.end(t) // a call may be counted after its answer
	if diff := cmp.Diff(map[string]string{"token 1": "3 23 0", "token nightly": "4 1 2", "other": "1 0 0"}, s.byClient()); diff != "" {
		t.Errorf("requests, rows and refused ones (-want +got):\n%s", diff)
	}
}

// There are at most mostClients names, of certificates too, and whatever an authority has written
// into them.
func TestClientNames(t *testing.T) {
	s := &serving{Server: gametest.Must(New(testConfig(&evaltest.Stub{Source: eval.CPU})))(t)}
	defer s.Close()
	long := strings.Repeat("x", 1000)
	for i := range 3 * mostClients {
		for _, name := range []string{"CN=\xff", "CN=" + long + fmt.Sprint(i), fmt.Sprintf("CN=%d", i)} {
			s.logged(&request{group: inferenceCalls, shown: name, rows: 1}, codes.OK, "")
		}
	}
	found, others := s.byClient(), 3*mostClients-(mostClients-2)
	if len(found) != mostClients+1 || found["other"] != fmt.Sprint(others, others, 0) || found["certificate CN=?"] != fmt.Sprint(3*mostClients, 3*mostClients, 0) {
		t.Errorf("%d names: %v", len(found), found)
	}
}
