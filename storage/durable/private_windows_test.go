package durable

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// open lets everybody in.
func open(t *testing.T, path string) {
	t.Helper()
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, dacl, nil); err != nil {
		t.Fatal(err)
	}
}

// TestOneEntry: the list of a written file names its owner and nobody else. (The
// entry of the system is wine's, which puts one on everything.)
func TestOneEntry(t *testing.T) {
	path := filepath.Join(scratch(t), "token")
	if err := WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	mine := "(A;;FA;;;" + user.User.Sid.String() + ")"
	got := sd.String()
	if rest := strings.Replace(got, "(A;;FA;;;SY)", "", 1); strings.Count(rest, "(") != 1 || !strings.HasSuffix(rest, mine) {
		t.Errorf("the list is %s, want one entry %s", got, mine)
	}
}
