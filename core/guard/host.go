package guard

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ErrWide is returned by CheckBind for an address others can reach.
var ErrWide = errors.New("guard: the address can be reached from other machines")

// CheckBind reports whether addr may be listened on without asking: its host is
// a loopback name or address.
func CheckBind(addr string) error {
	if Loopback(addr) {
		return nil
	}
	return ErrWide
}

// Loopback reports whether a Host header or listen address names this machine
// and nothing else: localhost, 127.0.0.0/8 or [::1], with any port. Other
// names are refused even if they resolve to 127.0.0.1 today.
func Loopback(hostport string) bool {
	host, ok := hostOf(hostport)
	if !ok {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == "" && a.IsLoopback()
}

// literal reports whether the host is an address. A page can rebind a name to
// this machine, never an address.
func literal(hostport string) bool {
	host, ok := hostOf(hostport)
	_, err := netip.ParseAddr(host)
	return ok && err == nil
}

// hostOf takes the port and the brackets off.
func hostOf(hostport string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = hostport, "0"
		if inner, found := strings.CutPrefix(host, "["); found {
			host, found = strings.CutSuffix(inner, "]")
			if !found {
				return "", false
			}
		} else if strings.Contains(host, ":") {
			return "", false
		}
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil && host != ""
}
