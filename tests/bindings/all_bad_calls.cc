#include "tests/bindings/bad_input.h"

namespace weft::test {

const std::vector<BadCall>& AllBadCalls() {
  static const std::vector<BadCall> all = [] {
    std::vector<BadCall> calls;
    for (const auto& some :
         {BadCollectives(),     BadVectorCalls(),         BadExplainCalls(),
          BadOpCalls(),         BadDlpackCalls(),         BadMessages(),
          BadGroupCalls(),      BadShardCalls(),          BadShardPlanCalls(),
          BadShardStepCalls(),  BadShardOptimizerCalls(), BadShardNormCalls(),
          BadShardCheckCalls(), BadSliceCalls(),          BadShardInfoCalls(),
          BadShardStateCalls(), BadCheckpointCalls(),     BadCheckpointFilesCalls(),
          BadParamGroupCalls(), BadProcessCalls(),        BadCompletionCalls(),
          BadXlaCalls(),        BadDeviceCalls()}) {
      calls.insert(calls.end(), some.begin(), some.end());
    }
    return calls;
  }();
  return all;
}

}  // namespace weft::test
