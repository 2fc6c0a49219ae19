// Package upstream knows where requests go and how they travel: routes, the
// guarded transport, header rules, bounded body decoding and the relay that
// flushes each event and reads usage in passing. It never retries and never
// follows a redirect: both would hide from the client what really happened.
package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"holdfast/core/config"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// Target is where one request goes.
type Target struct {
	// URL is the exact upstream URL, query included.
	URL *url.URL
	// Route is the configured route's name, or "via".
	Route string
	// Window is the route's configured window, 0 for none.
	Window usage.Tokens
	// Proxy is the route's HTTP proxy, "" for none.
	Proxy string
	// StrictRoles says that the route refuses neighbours of one role.
	StrictRoles bool
	// Family is the wire told by path and method; "" when it is not a model call.
	Family wire.Family
	// Count marks a token count: a side request by nature.
	Count bool
	// Guarded targets came from the request itself (/via) and may not reach
	// link-local, metadata or our own addresses.
	Guarded bool
}

// Loopback reports whether the upstream is on this machine by name.
func (t *Target) Loopback() bool {
	host := t.URL.Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Refusal is an answer of ours instead of the upstream's: what happened, what
// it means, what to do.
type Refusal struct {
	Status int
	Code   string
	Title  string
	Hint   string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Title }

// ErrForbidden is wrapped by dials that the guard refused.
var ErrForbidden = errors.New("upstream: address is not allowed here")

const (
	viaPrefix   = "/via/"
	routePrefix = "/r/"
)

// Resolve tells where r goes. path is the escaped path as the client sent it
// (a mux would rewrite its double slashes).
func Resolve(cfg *config.Config, method, path, rawQuery string) (Target, error) {
	var t Target
	var err error
	switch {
	case strings.HasPrefix(path, viaPrefix):
		t, err = viaTarget(path[len(viaPrefix):], rawQuery)
	case strings.HasPrefix(path, routePrefix):
		t, err = routeTarget(cfg, path[len(routePrefix):], rawQuery)
	default:
		t, err = defaultTarget(cfg, path, rawQuery)
	}
	if err != nil {
		return Target{}, err
	}
	t.Family, t.Count = Detect(method, t.URL.EscapedPath())
	if t.Guarded { // a route may be named "via" as well
		return t, nil
	}
	if forced := cfg.Routes[t.Route].Wire; forced != "" && t.Family != "" {
		t.Family = wire.Family(forced)
	}
	return t, nil
}

// Detect tells a model call by method and path.
func Detect(method, path string) (f wire.Family, count bool) {
	if method != http.MethodPost {
		return "", false
	}
	path = strings.TrimRight(path, "/")
	switch {
	case strings.HasSuffix(path, "/messages/count_tokens"):
		return wire.Anthropic, true
	case strings.HasSuffix(path, "/chat/completions"):
		return wire.OpenAI, false
	case strings.HasSuffix(path, "/messages"):
		return wire.Anthropic, false
	case strings.HasSuffix(path, "/responses"), strings.HasSuffix(path, "/responses/compact"):
		return wire.Responses, false
	case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
		return wire.Google, false
	case strings.HasSuffix(path, ":countTokens"):
		return wire.Google, true
	}
	return "", false
}

func viaTarget(rest, rawQuery string) (Target, error) {
	u, err := url.Parse(rest)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return Target{}, &Refusal{http.StatusBadRequest, "bad_via", "The address behind /via/ is not a complete http or https URL.",
			"Write the whole upstream URL after /via/, for example /via/https://api.anthropic.com."}
	}
	u.RawQuery = rawQuery
	if err := allowedHost(u.Hostname()); err != nil {
		return Target{}, err
	}
	return Target{URL: u, Route: "via", Guarded: true}, nil
}

func routeTarget(cfg *config.Config, rest, rawQuery string) (Target, error) {
	name, path, _ := strings.Cut(rest, "/")
	r, ok := cfg.Routes[name]
	if !ok {
		return Target{}, &Refusal{http.StatusNotFound, "unknown_route", fmt.Sprintf("There is no route named %q.", name),
			fmt.Sprintf("Add [routes.%s] with a url to config.toml, or use one of the routes that `holdfast config show` lists.", name)}
	}
	return join(name, r, "/"+path, rawQuery)
}

func defaultTarget(cfg *config.Config, path, rawQuery string) (Target, error) {
	f := barePath(path)
	if f == "" {
		return Target{}, &Refusal{http.StatusNotFound, "unknown_path", "This path belongs to no model API that Holdfast knows.",
			"Point the client at /via/<upstream URL> or at /r/<route>."}
	}
	name, r, ok := cfg.RouteFor(config.Family(f))
	if !ok {
		return Target{}, &Refusal{http.StatusNotFound, "no_default_route", fmt.Sprintf("No route is the default for the %s family.", f),
			fmt.Sprintf("Set default_for = [%q] on one of the [routes.…] in config.toml.", string(f))}
	}
	return join(name, r, path, rawQuery)
}

// barePath tells the family a path without prefix belongs to, for any method:
// model lists and token counts go where the calls go.
func barePath(path string) wire.Family {
	switch {
	case strings.HasPrefix(path, "/v1/messages"), strings.HasPrefix(path, "/api/"):
		return wire.Anthropic
	case strings.HasPrefix(path, "/v1/responses"), strings.HasPrefix(path, "/v1/conversations"):
		return wire.Responses
	case strings.HasPrefix(path, "/v1beta/"):
		return wire.Google
	case strings.HasPrefix(path, "/v1/"):
		return wire.OpenAI
	}
	return ""
}

func join(name string, r config.Route, path, rawQuery string) (Target, error) {
	u, err := url.Parse(strings.TrimRight(r.URL, "/") + path)
	if err != nil {
		return Target{}, &Refusal{http.StatusBadRequest, "bad_path", "The request path does not make a valid upstream URL.", "Check the client's base URL."}
	}
	u.RawQuery = rawQuery
	return Target{URL: u, Route: name, Window: r.Window, Proxy: r.Proxy, StrictRoles: r.StrictRoles}, nil
}

// metadataHosts are names that cloud machines answer secrets under.
var metadataHosts = map[string]bool{"metadata.google.internal": true, "metadata": true, "instance-data": true}

// allowedHost refuses what can be told from the name alone; addresses behind
// names are checked again when they are dialled.
func allowedHost(host string) error {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if metadataHosts[strings.ToLower(strings.TrimRight(host, "."))] || err == nil && forbidden(ip) {
		return &Refusal{http.StatusForbidden, "via_refused", "Link-local and metadata addresses cannot be reached through /via.",
			"If this really is a model API, add it as a route in config.toml."}
	}
	return nil
}

// metadataAddrs are metadata addresses of the large clouds that are not
// link-local: AWS and Google over IPv6, Alibaba, Azure, Oracle.
var metadataAddrs = map[netip.Addr]bool{
	netip.MustParseAddr("fd00:ec2::254"): true, netip.MustParseAddr("fd20:ce::254"): true,
	netip.MustParseAddr("100.100.100.200"): true, netip.MustParseAddr("168.63.129.16"): true, netip.MustParseAddr("192.0.0.192"): true,
}

// translated is the well-known prefix under which a NAT64 network reaches IPv4.
var translated = netip.MustParsePrefix("64:ff9b::/96")

func forbidden(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if translated.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsMulticast() || ip.IsUnspecified() || metadataAddrs[ip]
}

// ownPort reports whether addr is one of our own listeners on this machine.
func ownPort(addr string, own []string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() && !ip.Unmap().IsUnspecified() { // the unspecified address reaches this machine
		return false
	}
	for _, o := range own {
		if _, p, err := net.SplitHostPort(o); err == nil && p == port {
			return true
		}
	}
	return false
}
