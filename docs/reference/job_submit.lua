-- SPDX-License-Identifier: Apache-2.0
-- For slurm.conf's JobSubmitPlugins=lua: a job that is run by `fermata run --resume` may be queued
-- again. With JobFileAppend=1 in slurm.conf, which no plug-in can say for one job, it adds to its
-- output instead of beginning it anew. So the script of chapter 7 of the guide needs neither
-- `#SBATCH --requeue` nor `#SBATCH --open-mode=append`. What the user says in the script wins.

local function is_ours(script)
  for line in script:gmatch("[^\n]+") do
    local is_comment = line:match("^%s*#")
    if not is_comment and line:match("fermata%s+run%s") and line:match("%-%-resume") then
      return true
    end
  end
  return false
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.script == nil or not is_ours(job_desc.script) then
    return slurm.SUCCESS
  end
  if job_desc.requeue == slurm.NO_VAL16 then
    job_desc.requeue = 1
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
