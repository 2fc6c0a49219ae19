package durable

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Private gives a file or folder one protected entry: full control for the user
// we run as. What is made in the folder later inherits it.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	inherit := ""
	if info.IsDir() {
		inherit = "OICI"
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;" + inherit + ";FA;;;" + user.User.Sid.String() + ")")
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	const all = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.WRITE_DAC, all, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer windows.CloseHandle(h) // nothing was written through it
	// Not SetNamedSecurityInfo: wine mixes what the folder above has into that,
	// and there is nothing to hand down, since whoever writes here closes each
	// file as well.
	const what = windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION
	return windows.SetKernelObjectSecurity(h, what, sd)
}

// touches are the rights that show or change what is in a file, or let their
// holder take such a right.
const touches = windows.FILE_READ_DATA | windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.DELETE |
	windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_READ | windows.GENERIC_WRITE | windows.GENERIC_ALL

// Others says who else may read or change a file or folder, "" for nobody. The
// system and its administrators may do everything and are not counted.
func Others(path string) (who string, err error) {
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, what)
	if err != nil {
		return "", err
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", err
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return "", err
	}
	if dacl == nil { // no list at all lets everybody in
		return "everyone", nil
	}
	var names []string
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return "", err
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE && ace.Mask&touches != 0 && !sid.Equals(user.User.Sid) && !trusted(sid) {
			names = append(names, nameOf(sid))
		}
	}
	return strings.Join(names, ", "), nil
}

// trusted are the accounts that can help themselves anyway, and the two that
// stand for whoever owns the file.
func trusted(sid *windows.SID) bool {
	for _, t := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid, windows.WinCreatorOwnerRightsSid} {
		if sid.IsWellKnown(t) {
			return true
		}
	}
	return false
}

// nameOf is an account as a person knows it.
func nameOf(sid *windows.SID) string {
	account, domain, _, err := sid.LookupAccount("")
	switch {
	case err != nil:
		return sid.String()
	case domain == "":
		return account
	}
	return domain + `\` + account
}
