; Per-user installer: needs no administrator. Who may change the programs is
; what their folder hands down: below the user's profile that is the user, the
; system and its administrators. Anywhere else it may be everybody, so such a
; folder is refused. The programs see to their own data (storage/durable).
Target amd64-unicode
!include "MUI2.nsh"
!include "FileFunc.nsh"
Name "Holdfast"
OutFile "${OUT}"
RequestExecutionLevel user
InstallDir "$LOCALAPPDATA\Programs\Holdfast"
InstallDirRegKey HKCU "Software\Holdfast" "InstallDir"
SetCompressor /SOLID lzma
ManifestDPIAware true
VIProductVersion "${NUMBERS}"
VIAddVersionKey ProductName "Holdfast"
VIAddVersionKey FileVersion "${VERSION}"
VIAddVersionKey ProductVersion "${VERSION}"
VIAddVersionKey FileDescription "Holdfast installer"
VIAddVersionKey LegalCopyright "MIT licence"
!define MUI_ICON "${ICO}"
!define MUI_UNICON "${ICO}"
!define MUI_FINISHPAGE_RUN "$INSTDIR\HoldfastTray.exe"
!insertmacro MUI_PAGE_LICENSE "${SRC}\LICENSE.txt"
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!finalize '${SIGN} "%1"'
!uninstfinalize '${SIGN} "%1"'
!define UNINST "Software\Microsoft\Windows\CurrentVersion\Uninstall\Holdfast"

; Sets $0 to 1 when the folder is below the user's profile.
!macro BelowProfile
  Push $1
  Push $2
  StrLen $2 "$PROFILE\"
  StrCpy $1 "$INSTDIR" $2
  StrCpy $0 0
  StrCmp $1 "$PROFILE\" 0 +2
    StrCpy $0 1
  Pop $2
  Pop $1
!macroend

Function .onInit
  !insertmacro BelowProfile
  StrCmp $0 1 done
    MessageBox MB_OK|MB_ICONSTOP "Holdfast is installed for one user, in a folder that others cannot change: choose one below $PROFILE." /SD IDOK
    SetErrorLevel 2
    Abort
  done:
FunctionEnd

; The page with the folder has no way on while this aborts.
Function .onVerifyInstDir
  !insertmacro BelowProfile
  StrCmp $0 1 +2
    Abort
FunctionEnd

; A running copy drains, for at most 15 seconds, before its file is replaced.
!macro Stop
  IfFileExists "$INSTDIR\holdfast.exe" 0 +2
    nsExec::Exec /TIMEOUT=20000 '"$INSTDIR\holdfast.exe" quit'
!macroend

Section "Holdfast"
  !insertmacro Stop
  SetOutPath "$INSTDIR"
  File "${SRC}\holdfast.exe"
  File "${SRC}\HoldfastTray.exe"
  File "${SRC}\LICENSE.txt"
  File "${SRC}\LICENCES.txt"
  CreateShortCut "$SMPROGRAMS\Holdfast.lnk" "$INSTDIR\HoldfastTray.exe"
  WriteRegStr HKCU "Software\Holdfast" "InstallDir" "$INSTDIR"
  WriteRegStr HKCU "${UNINST}" "DisplayName" "Holdfast"
  WriteRegStr HKCU "${UNINST}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINST}" "Publisher" "Holdfast maintainers"
  WriteRegStr HKCU "${UNINST}" "DisplayIcon" "$INSTDIR\HoldfastTray.exe"
  WriteRegStr HKCU "${UNINST}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINST}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  ${GetSize} "$INSTDIR" "/S=0K" $0 $1 $2
  IntFmt $0 "0x%08X" $0
  WriteRegDWORD HKCU "${UNINST}" "EstimatedSize" "$0"
  WriteRegDWORD HKCU "${UNINST}" "NoModify" 1
  WriteUninstaller "$INSTDIR\uninstall.exe"
SectionEnd

; Data and settings stay; agents that were connected get their own settings
; back, because their base URL would lead nowhere.
Section "Uninstall"
  !insertmacro Stop
  nsExec::Exec /TIMEOUT=20000 '"$INSTDIR\holdfast.exe" uninstall'
  Delete "$SMPROGRAMS\Holdfast.lnk"
  Delete "$INSTDIR\holdfast.exe"
  Delete "$INSTDIR\HoldfastTray.exe"
  Delete "$INSTDIR\LICENSE.txt"
  Delete "$INSTDIR\LICENCES.txt"
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
  DeleteRegValue HKCU "Software\Microsoft\Windows\CurrentVersion\Run" "Holdfast"
  DeleteRegKey HKCU "${UNINST}"
  DeleteRegKey HKCU "Software\Holdfast"
SectionEnd
