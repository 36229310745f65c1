// SPDX-License-Identifier: Apache-2.0
// The names that Fortran programs call, as gfortran and most others write them: in small letters
// with one underscore, lengths of texts behind the arguments. Texts are padded with blanks.
#include <scr.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// A text of Fortran's without the blanks at its end.
std::string trimmed(const char* text, size_t length) {
  while (length > 0 && text[length - 1] == ' ') length--;
  return {text, length};
}

// Whether it has room.
bool give(const char* from, char* text, size_t length) {
  const size_t bytes = std::strlen(from);
  std::memset(text, ' ', length);
  std::memcpy(text, from, std::min(bytes, length));
  return bytes <= length;
}

}  // namespace

extern "C" {

void scr_init_(int* error) { *error = SCR_Init(); }
void scr_finalize_(int* error) { *error = SCR_Finalize(); }

void scr_config_(const char* config, char* value, int* error, size_t config_length,
                 size_t value_length) {
  const char* const found = SCR_Config(trimmed(config, config_length).c_str());
  *error = give(found ? found : "", value, value_length) ? SCR_SUCCESS : SCR_FAILURE;
  std::free(const_cast<char*>(found));
}

void scr_route_file_(const char* name, char* file, int* error, size_t name_length,
                     size_t file_length) {
  char path[SCR_MAX_FILENAME] = "";
  *error = SCR_Route_file(trimmed(name, name_length).c_str(), path);
  if (*error == SCR_SUCCESS && !give(path, file, file_length)) *error = SCR_FAILURE;
}

void scr_have_restart_(int* flag, char* name, int* error, size_t length) {
  char found[SCR_MAX_FILENAME] = "";
  *error = SCR_Have_restart(flag, found);
  if (*error == SCR_SUCCESS && !give(found, name, length)) *error = SCR_FAILURE;
}

void scr_start_restart_(char* name, int* error, size_t length) {
  char found[SCR_MAX_FILENAME] = "";
  *error = SCR_Start_restart(found);
  if (*error == SCR_SUCCESS && !give(found, name, length)) *error = SCR_FAILURE;
}

void scr_complete_restart_(const int* valid, int* error) { *error = SCR_Complete_restart(*valid); }
void scr_need_checkpoint_(int* flag, int* error) { *error = SCR_Need_checkpoint(flag); }

void scr_start_output_(const char* name, const int* flags, int* error, size_t length) {
  *error = SCR_Start_output(trimmed(name, length).c_str(), *flags);
}

void scr_complete_output_(const int* valid, int* error) { *error = SCR_Complete_output(*valid); }
void scr_start_checkpoint_(int* error) { *error = SCR_Start_checkpoint(); }

void scr_complete_checkpoint_(const int* valid, int* error) {
  *error = SCR_Complete_checkpoint(*valid);
}

void scr_should_exit_(int* flag, int* error) { *error = SCR_Should_exit(flag); }

void scr_current_(const char* name, int* error, size_t length) {
  *error = SCR_Current(trimmed(name, length).c_str());
}

void scr_drop_(const char* name, int* error, size_t length) {
  *error = SCR_Drop(trimmed(name, length).c_str());
}

void scr_delete_(const char* name, int* error, size_t length) {
  *error = SCR_Delete(trimmed(name, length).c_str());
}

void scr_get_version_(char* version, int* error, size_t length) {
  *error = give(SCR_Get_version(), version, length) ? SCR_SUCCESS : SCR_FAILURE;
}

}  // extern "C"
